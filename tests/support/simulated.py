"""Random organisations for the simulation, and a plain reading of what must come of them.

Every condition is drawn with its meaning in Python (`tests.support.plainly`), and the reading
goes by that alone, event by event: it shares nothing with the language, the encodings,
bundles and agents that the simulation runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from brokers.simulation.chance import Chance
from brokers.simulation.client import Publication
from brokers.simulation.plan import AgentSite, ClientSite, Plan, Rule
from policyengine.attributes import AttributeType
from policyengine.events import AttributeSpec, TypeSpec
from tests.support.plainly import ALWAYS, Said, among, compare, same, there

CARRIERS = ("aa", "dl", "ua")
ROLES = ("clerk", "guard", "pilot")
_ENUM = AttributeType("enum", values=CARRIERS)
_NUMBER = AttributeType("int", minimum=0, maximum=9)
SUBJECT = {
    "subject.role": AttributeType("enum", values=ROLES),
    "subject.carrier": _ENUM,
    "subject.level": _NUMBER,
}
INHERITED = {"carrier": _ENUM, "delay": _NUMBER, "tail": AttributeType("string")}
OWN = {"gate": _NUMBER, "crew": AttributeType("string")}
ATTRIBUTES: Mapping[str, Mapping[str, AttributeType]] = {
    "Flight": INHERITED,
    "Departure": {**INHERITED, **OWN},
}
PROTECTED = {"tail": "tail-key", "crew": "crew-key"}
OVERLAYS = ("north", "south")


@dataclass(frozen=True)
class Profile:
    """How attributes are protected and carried.

    Args:
        name: of the profile.
        keys: whether `tail` and `crew` are under attribute keys.
        keyless: whether some agent may lack a key.
        split: whether events are split over two overlays.
        blind: whether `tail` and `crew` are searchable and sealed, so that no agent reads them.
        ranges: whether `delay` is order-preserving and sealed; filters are conjunctions then.
    """

    name: str
    keys: bool = False
    keyless: bool = False
    split: bool = False
    blind: bool = False
    ranges: bool = False


PROFILES = (
    Profile("clear"),
    Profile("attribute keys", keys=True),
    Profile("attribute keys, some agents without", keys=True, keyless=True),
    Profile("split", keys=True, split=True),
    Profile("blind", blind=True),
    Profile("blind and split", blind=True, split=True),
    Profile("blind ranges", blind=True, ranges=True),
)


@dataclass(frozen=True)
class Wanted:
    """A subscription: a type with its sub-types, and what its events must meet."""

    type: str
    filter: Said


@dataclass(frozen=True)
class PlainRule:
    """A policy with its meaning."""

    rule: Rule
    said: Said


@dataclass
class Scene:
    """A random organisation with its subscriptions and events.

    Args:
        chance: decides everything.
        profile: see `Profile`.
        domain: its name.
        stands: agents that it may have; it has some of them, two or more an overlay. None
            draws agents of its own.
        size: how many clients it has.
        prefix: of their handles.
    """

    chance: Chance
    profile: Profile
    domain: str = "random"
    stands: tuple[AgentSite, ...] | None = None
    size: int = 10
    prefix: str = "client-"
    wishes: dict[str, list[Wanted]] = field(default_factory=dict)
    revoked: set[str] = field(default_factory=set)
    too_late: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.rules = [self._rule(number, "publish") for number in range(2)]
        self.rules += [self._rule(number + 2, "subscribe") for number in range(4)]
        self.plan = self._plan()
        self.sites = {site.handle: site for site in self.plan.clients}

    # drawing

    def _plan(self) -> Plan:
        chance, profile = self.chance, self.profile
        agents = tuple(
            site
            for overlay in (OVERLAYS if profile.split else OVERLAYS[:1])
            for site in self._agents(overlay)
        )
        clients = tuple(self._client(number, agents) for number in range(self.size))
        holders = {
            key: tuple(
                site.name for site in agents if not (profile.keyless and chance.happens(0.4))
            )
            for key in PROTECTED.values()
        }
        return Plan(
            domain=self.domain,
            types=self._types(),
            schema=SUBJECT,
            rules=tuple(one.rule for one in self.rules),
            agents=agents,
            clients=clients,
            key_holders=holders if profile.keys else {},
            splits={"Flight": (("north", ("carrier", "crew")), ("south", ("delay",)))}
            if profile.split
            else {},
        )

    def _agents(self, overlay: str) -> list[AgentSite]:
        chance = self.chance
        if self.stands is None:
            return [AgentSite(f"{overlay}-{n}", overlay) for n in range(2 + chance.below(5))]
        there = [site for site in self.stands if site.overlay == overlay]
        return chance.sample(there, 2 + chance.below(len(there) - 1))

    def _types(self) -> tuple[TypeSpec, ...]:
        def spec(name: str, kind: AttributeType) -> AttributeSpec:
            key = PROTECTED.get(name)
            if key and self.profile.blind:
                return AttributeSpec(name, kind, blind="searchable", sealed=True)
            if name == "delay" and self.profile.ranges:
                return AttributeSpec(name, kind, blind="order-preserving", sealed=True)
            return AttributeSpec(name, kind, (key,) if key and self.profile.keys else ())

        flight = tuple(spec(*one) for one in INHERITED.items())
        departure = tuple(spec(*one) for one in OWN.items())
        return TypeSpec("Flight", None, flight), TypeSpec("Departure", "Flight", departure)

    def _client(self, number: int, agents: tuple[AgentSite, ...]) -> ClientSite:
        chance = self.chance
        subject: dict[str, Any] = {"subject.role": chance.pick(ROLES)}
        if chance.happens(0.8):
            subject["subject.carrier"] = chance.pick(CARRIERS)
        if chance.happens(0.8):
            subject["subject.level"] = chance.below(10)
        overlays = dict.fromkeys(site.overlay for site in agents)
        homes = {
            overlay: chance.pick([site.name for site in agents if site.overlay == overlay])
            for overlay in overlays
        }
        return ClientSite(f"{self.prefix}{number}", subject, homes)

    def _rule(self, number: int, action: str) -> PlainRule:
        chance = self.chance
        kind = chance.pick(["Flight", "Flight", "Departure"])
        listed: tuple[str, ...] | None = None
        if action == "publish" and chance.happens(0.5):
            kind, said = "Flight", there("subject.role")
        else:
            said = self._subject_test()
            if chance.happens(0.5):
                said = self._joined(said, self._subject_test(), ("and", "or"))
            if chance.happens(0.6 if action == "subscribe" else 0.3):
                said = self._joined(said, self._event_test(), ("and", "and", "or"))
            elif chance.happens(0.5):
                said &= same("subject.carrier", "event.carrier")
            names = sorted(ATTRIBUTES[kind])
            drawn = chance.sample(names, 1 + chance.below(len(names)))
            listed = tuple(drawn) if chance.happens(0.6) else None
        return PlainRule(Rule(f"rule-{number}", action, kind, said.text, listed), said)

    def _joined(self, one: Said, other: Said, ways: tuple[str, ...]) -> Said:
        return one & other if self.chance.pick(ways) == "and" else one | other

    def _subject_test(self) -> Said:
        chance = self.chance
        return chance.pick(
            [
                compare("subject.role", "==", chance.pick(ROLES)),
                compare("subject.role", "!=", chance.pick(ROLES)),
                ~compare("subject.role", "==", chance.pick(ROLES)),
                compare("subject.level", chance.pick(["<", ">=", "=="]), chance.below(10)),
                among("subject.carrier", (chance.pick(CARRIERS[:2]), "ua")),
                ~there("subject.level"),
                there("subject.carrier"),
            ]
        )

    def _event_test(self) -> Said:
        chance = self.chance
        return chance.pick(
            [
                compare("event.carrier", "==", chance.pick(CARRIERS)),
                compare("event.carrier", "!=", chance.pick(CARRIERS)),
                compare("event.delay", chance.pick([">", "<="]), chance.below(10)),
                there("event.delay"),
                ~there("event.tail"),
            ]
        )

    def wish(self, handle: str) -> tuple[str, str]:
        """Draw one more subscription of a client."""
        chance = self.chance
        kind = chance.pick(["Flight", "Flight", "Departure"])
        late = compare("delay", chance.pick(["<", "<=", ">", ">=", "=="]), chance.below(10))
        choices = [
            ALWAYS,
            late,
            late & compare("carrier", "!=", chance.pick(CARRIERS)),
            compare("tail", "==", f"n{chance.below(3)}"),
            ~there("tail") & late,
        ]
        if not self.profile.ranges:
            # What agents compare without reading they cannot compare in these forms.
            choices += [
                compare("delay", "!=", chance.below(10)),
                compare("carrier", "==", chance.pick(CARRIERS)) | late,
                among("tail", (f"n{chance.below(2)}", "n2")) & ~late,
            ]
        said = chance.pick(choices)
        self.wishes.setdefault(handle, []).append(Wanted(kind, said))
        return kind, said.text

    def event(self) -> tuple[str, dict[str, Any]]:
        """Draw an event."""
        chance = self.chance
        kind = chance.pick(sorted(ATTRIBUTES))
        values: dict[str, Any] = {
            "carrier": chance.pick(CARRIERS),
            "delay": chance.below(10),
            "tail": f"n{chance.below(3)}",
            "gate": chance.below(10),
            "crew": f"c{chance.below(3)}",
        }
        own = ATTRIBUTES[kind]
        return kind, {n: v for n, v in values.items() if n in own and chance.happens(0.8)}

    # the plain reading

    def permitted(
        self, action: str, handle: str, kind: str, values: Mapping[str, Any]
    ) -> set[str] | None:
        """Attributes of an event that a client may write or read; None: not the event at all."""
        facts = dict(self.sites[handle].subject)
        facts |= {f"event.{name}": value for name, value in values.items()}
        found: set[str] | None = None
        for one in self.rules:
            rule = one.rule
            if rule.action != action or kind not in (rule.type, *_below(rule.type)):
                continue
            if one.said.holds(facts):
                names = values if rule.attributes is None else rule.attributes
                found = (found or set()) | (set(names) & set(values))
        return found

    def written(self, publication: Publication) -> set[str] | None:
        """Attributes that its publisher may write; None: it must be refused."""
        if publication.publisher in self.revoked and publication.identifier in self.too_late:
            return None
        return self.permitted(
            "publish", publication.publisher, publication.type, publication.values
        )

    def expected(self, handle: str, publication: Publication) -> Mapping[str, Any] | None:
        """What a subscriber must get of an event that was accepted."""
        kind, values = publication.type, publication.values
        publisher = publication.publisher
        written = self.written(publication)
        readable = self.permitted("subscribe", handle, kind, values)
        if written is None or readable is None:
            return None
        if handle in self.revoked and publication.identifier in self.too_late:
            return None
        shown = {
            name: value
            for name, value in values.items()
            if name in written and name in readable
            and self._opens(publisher, name) and self._opens(handle, name)
        }  # fmt: skip
        met = any(
            kind in (one.type, *_below(one.type)) and one.filter.holds(shown)
            for one in self.wishes.get(handle, ())
        )
        return shown if met else None

    def _opens(self, handle: str, name: str) -> bool:
        """Whether the home agent through which an attribute passes holds its key."""
        if not self.profile.keys or name not in PROTECTED:
            return True
        overlay = "north"
        if self.profile.split:
            overlay = "south" if name not in ("carrier", "crew") else "north"
        return self.sites[handle].homes[overlay] in self.plan.key_holders[PROTECTED[name]]


def _below(kind: str) -> tuple[str, ...]:
    return ("Departure",) if kind == "Flight" else ()
