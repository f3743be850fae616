"""What is in force at a client: its home agents, tag keys, and how events are split."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from brokers.client.blind import BlindProfile
from brokers.client.errors import NotReady
from brokers.ports import Clock
from policyengine.anonset import tags
from policyengine.attributes import Predicate, Value
from policyengine.attributes.literals import Literal
from policyengine.bundles import (
    ClientContent,
    Floors,
    HomeAgent,
    OpenedBundle,
    TagKey,
    TrustedState,
)
from policyengine.errors import InputError, PortcullisError, RejectedError
from policyengine.events import EventTypes, TypeSpec
from policyengine.privacy import split
from policyengine.trustgroups import may_seal

FORMER_HOME_SECONDS = 60.0


@dataclass(frozen=True)
class PlannedPart:
    """One part of an event.

    Args:
        part: its number, from 0.
        parts: how many there are.
        overlay: where it travels.
        values: its attributes.
    """

    part: int
    parts: int
    overlay: str
    values: Mapping[str, Value]


@dataclass(frozen=True)
class ClientPolicy:
    """One bundle's content, ready to use.

    Args:
        domain: the domain that it is about.
        revision: of the bundle.
        digest: of its header; publications name it.
        types: event types with their inheritance resolved.
        homes: overlay -> home agent there, in the bundle's order.
        fallbacks: overlay -> the agent that serves while the home there is silent.
        splits: event type -> (overlay, attribute names) of each part.
        tag_keys: overlay -> key of the epoch in which new tags are made.
        predicates: what values are tested for beside equality.
        publishes: event types (sub-trees) that the client may publish.
        window_seconds: how long parts wait for one another.
        blind: what is hidden from agents, and the keys for it.
    """

    domain: str
    revision: int
    digest: str
    types: EventTypes
    homes: Mapping[str, HomeAgent]
    fallbacks: Mapping[str, HomeAgent]
    splits: Mapping[str, tuple[tuple[str, tuple[str, ...]], ...]]
    tag_keys: Mapping[str, TagKey] = field(repr=False)
    predicates: tuple[Predicate, ...]
    publishes: tuple[str, ...]
    window_seconds: int
    blind: BlindProfile = field(repr=False)

    @property
    def agents(self) -> tuple[HomeAgent, ...]:
        """Every agent that may serve the client: homes and their stand-ins."""
        return (*self.homes.values(), *self.fallbacks.values())

    @property
    def can_tag(self) -> bool:
        """Whether the tag key of every home's overlay is current: publishing can begin."""
        return all(overlay in self.tag_keys for overlay in self.homes)

    def canonical(self, event_type: str, values: Mapping[str, Value]) -> Mapping[str, Value]:
        """The values in their types' one form; unchanged where the agent will refuse them."""
        try:
            return self.types.validate(event_type, values)
        except InputError:
            return values

    def plan(self, event_type: str, values: Mapping[str, Value]) -> tuple[PlannedPart, ...]:
        """Split an event over overlays as the privacy assessment wants it (PP-DEBS).

        A type without a plan of its own follows its nearest ancestor's; without any, the
        event goes whole to the first home.

        Raises:
            NotReady: `no-home`, where the client has no agent to send to.
        """
        groups = self._split_of(event_type)
        if not groups:
            first = next(iter(self.homes), None)
            if first is None:
                raise NotReady("no-home", "this client has no home agent yet")
            return (PlannedPart(0, 1, first, dict(values)),)
        for overlay, _ in groups:
            if overlay not in self.homes:
                raise NotReady("no-home", f"this client has no home agent on overlay `{overlay}`")
        parts = split(values, [names for _, names in groups])
        return tuple(
            PlannedPart(number, len(parts), groups[number][0], part)
            for number, part in enumerate(parts)
        )

    def _split_of(self, event_type: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
        try:
            line = (event_type, *self.types.ancestors(event_type))
        except InputError:
            return ()  # an unknown type: the agent says so
        return next((self.splits[name] for name in line if name in self.splits), ())

    def tags(
        self, overlay: str, values: Mapping[str, Value], event_type: str = ""
    ) -> tuple[int, tuple[bytes, ...]]:
        """The routing tags of a whole event for one overlay.

        Args:
            overlay: its tag key is used.
            values: of the full event, split or not: every overlay must be able to decide.
            event_type: the event's type: what it hides from agents is tagged only where a
                policy asks for it.

        Returns:
            The encoding epoch and the tags, 16 bytes each, sorted.

        Raises:
            NotReady: `not-ready`, where no tag key of the overlay is current.
        """
        key = self.tag_keys.get(overlay)
        if key is None:
            raise NotReady("not-ready", f"no current tag key for overlay `{overlay}` has arrived")
        made = tags(key.key, self.blind.tokens(event_type, values, self.predicates))
        return key.epoch, tuple(sorted(made))


def build_policy(opened: OpenedBundle) -> ClientPolicy:
    """Turn a verified bundle into what a client uses.

    Raises:
        RejectedError: `malformed`, where the content contradicts itself.
    """
    content = opened.content
    if not isinstance(content, ClientContent):
        raise RejectedError("malformed", "the bundle holds no content for a client")
    try:
        types = EventTypes([TypeSpec.from_json(spec) for spec in content.types])
        return ClientPolicy(
            domain=content.domain,
            revision=opened.header.revision,
            digest=opened.digest,
            types=types,
            homes={home.overlay: home for home in content.homes},
            fallbacks={home.overlay: home for home in content.fallbacks},
            splits={
                name: tuple((str(one["overlay"]), tuple(one["attributes"])) for one in parts)
                for name, parts in content.splits.items()
            },
            tag_keys=_sealing_tag_keys(content),
            predicates=tuple(Literal.from_json(one) for one in content.predicates),
            publishes=content.publishes,
            window_seconds=content.window_seconds,
            blind=BlindProfile.of(
                content.domain, content.handle, types, content.blind, content.ordered
            ),
        )
    except RejectedError:
        raise
    except (PortcullisError, KeyError, ValueError, TypeError) as error:
        raise RejectedError("malformed", f"the bundle contradicts itself: {error}") from error


def _sealing_tag_keys(content: ClientContent) -> dict[str, TagKey]:
    usable = sorted((key for key in content.tag_keys if may_seal(key.state)), key=lambda k: k.epoch)
    return {key.overlay: key for key in usable}


Reading = Callable[[ClientPolicy], ClientPolicy]


class PolicyHolder:
    """Holds what is in force at a client, one policy a domain; the control side swaps them.

    A former home has deliveries under way when the client moves, so its signature counts
    for a moment longer; only for a moment, since it may be one that nobody trusts any more.

    Args:
        changed: called after every swap.
        clock: says when that moment is over.
        domain: the client's own domain; None where there is only one.
    """

    def __init__(
        self, changed: Callable[[], None], clock: Clock, domain: str | None = None
    ) -> None:
        self._reading: Reading = lambda policy: policy
        self._changed = changed
        self._clock = clock
        self._domain = domain
        self._former: dict[tuple[str, str], tuple[bytes, float]] = {}
        self.domains: Mapping[str, ClientPolicy] = {}

    @property
    def current(self) -> ClientPolicy | None:
        """What is in force in the client's own domain, None before the first bundle."""
        if self._domain is None:
            return next(iter(self.domains.values()), None)
        return self.domains.get(self._domain)

    def of(self, domain: str) -> ClientPolicy | None:
        """What is in force in a domain, or None."""
        return self.domains.get(domain)

    def read_with(self, reading: Reading) -> None:
        """Have every policy, those in force too, read with more keys than bundles bring.

        Args:
            reading: returns a policy that reads with them; called again at every call of this.
        """
        self._reading = reading
        self.domains = {domain: reading(policy) for domain, policy in self.domains.items()}
        self._changed()

    def verify_key(self, agent: str) -> bytes:
        """Ed25519 key of an agent that serves us, or did until a moment ago.

        Raises:
            KeyError: it does not.
        """
        for policy in self.domains.values():
            for home in policy.agents:
                if home.agent == agent:
                    return home.verify_key
        now = self._clock.boot()
        for (_, name), (key, end) in self._former.items():
            if name == agent and now < end:
                return key
        raise KeyError(agent)

    def serves(self, domain: str, agent: str) -> bool:
        """Whether an agent may speak for a domain: it serves us there, or did just now."""
        policy = self.domains.get(domain)
        if policy is None:
            return False
        if any(home.agent == agent for home in policy.agents):
            return True
        _, end = self._former.get((domain, agent), (b"", float("-inf")))
        return self._clock.boot() < end

    def prepare(self, opened: OpenedBundle, state: TrustedState) -> ClientPolicy:
        """Build what a bundle brings. Raises RejectedError where it is no use."""
        return build_policy(opened)

    def commit(self, domain: str, prepared: object) -> None:
        """Swap it in."""
        if not isinstance(prepared, ClientPolicy):
            raise TypeError("not prepared by this object")
        end = self._clock.boot() + FORMER_HOME_SECONDS
        held = self.domains.get(domain)
        leaving = held.agents if held else ()
        keys = {(domain, home.agent): (home.verify_key, end) for home in leaving}
        self._former = {**self._former, **keys}
        self.domains = {**self.domains, domain: self._reading(prepared)}
        self._changed()

    def deny(self, domain: str, handles: frozenset[str]) -> None:
        """Notices are for agents; a client has nothing to take out."""

    def hold(self, domain: str, floors: Floors) -> None:
        """Notices are for agents; a client has nobody to hold anything from."""

    def settled(self) -> Callable[[], bool]:
        """Nothing of a client's work must be over before it acknowledges a bundle."""
        return lambda: True
