"""The policies that a question of access is about, and in which ways each could be satisfied."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from django.db.models import Q

from adminapp.agreements.effect import Opening
from adminapp.catalog.mapping import EVENT
from adminapp.identity.lineage import lineage
from adminapp.identity.models import Domain, Principal
from adminapp.policies import grants, remembered, selectors
from adminapp.policies.language import Language, PolicyConjunction
from adminapp.policies.models import Policy
from adminapp.policies.remedies import Missing, Step, day, must
from adminapp.roles.mapping import ROLE
from policyengine.attributes import Literal, Value, unknown
from policyengine.errors import InputError

_DEEDS = {
    "define": "define",
    "advertise": "advertise",
    "publish": "publish",
    "subscribe": "receive",
}


@dataclass(frozen=True)
class Question:
    """What is asked.

    Args:
        domain: whose events it is about.
        principal: who.
        action: define, advertise, publish or subscribe.
        type: name of the event type.
        attribute: None is the event as such.
        at: the moment.
        event: values of one event, by name; None is any event.
    """

    domain: Domain
    principal: Principal
    action: str
    type: str
    attribute: str | None
    at: datetime
    event: Mapping[str, Value] | None = None

    @property
    def deed(self) -> str:
        """What is asked, as the rest of a sentence: "read `tail` of `Flight`"."""
        if self.attribute is None:
            return f"{_DEEDS[self.action]} `{self.type}`"
        verb = {"publish": "write", "subscribe": "read"}.get(self.action, _DEEDS[self.action])
        return f"{verb} `{self.attribute}` of `{self.type}`"


@dataclass(frozen=True)
class Way:
    """One conjunction of a policy.

    Args:
        conjunction: what it asks for.
        missing: what keeps it from permitting this, whoever asks.
    """

    conjunction: PolicyConjunction
    missing: tuple[Missing, ...] = ()


@dataclass(frozen=True)
class Candidate:
    """A policy that has to do with the question.

    Args:
        policy: the policy.
        ways: its normal form, as far as it is about the type.
        missing: what keeps the whole policy from permitting anything.
    """

    policy: Policy
    ways: tuple[Way, ...]
    missing: tuple[Missing, ...]


@dataclass(frozen=True)
class Context:
    """What the domain says about a question.

    Args:
        asked: the question.
        spoken: its language at the moment.
        candidates: the policies.
        unknown: what is asked about and does not exist.
    """

    asked: Question
    spoken: Language
    candidates: tuple[Candidate, ...] = ()
    unknown: tuple[Missing, ...] = ()

    def roles(self) -> set[str]:
        """Names of the roles that the policies ask about."""
        return {
            name
            for candidate in self.candidates
            for way in candidate.ways
            for name in roles_of(way.conjunction)
        }


def roles_of(way: PolicyConjunction) -> set[str]:
    """Names of the roles that a conjunction asks about."""
    return {
        name.removeprefix(f"{ROLE}.").partition(".")[0]
        for name in _subjects(way)
        if name.startswith(f"{ROLE}.")
    }


def _subjects(way: PolicyConjunction) -> Iterable[str]:
    yield from (each.attribute for each in way.subject)
    yield from (join.left for join in way.joins)


def opened(candidate: Candidate, asked: Question, opening: Opening, spoken: Language) -> Candidate:
    """A policy as an agreement lets guests have it."""
    ceilings = [each for each in opening.ceilings if each.action == asked.action]
    known = spoken.types.names
    above = [c for c in ceilings if c.type in known and spoken.types.is_a(asked.type, c.type)]
    named = [
        c
        for c in above
        if asked.attribute is None or c.attributes is None or asked.attribute in c.attributes
    ]
    if named:
        return candidate
    text = f"agreement `{opening.name}` does not let guests {asked.deed}"
    return replace(candidate, missing=(Missing("agreement", text), *candidate.missing))


def read(asked: Question) -> Context:
    """Find the policies that a question is about."""
    spoken = remembered.language(asked.domain, asked.at)
    missing = _unknown(asked, spoken)
    if missing:
        return Context(asked, spoken, unknown=missing)
    above = {asked.type, *spoken.types.ancestors(asked.type)}
    rows = _rows(asked, above)
    advertised = grants.advertising(rows, spoken, [row for row in rows if row.in_force(asked.at)])
    about = [row for row in rows if row.action == asked.action and row.event_type.name in above]
    found = (_candidate(asked, row, spoken, advertised) for row in about)
    return Context(asked, spoken, tuple(found))


def _rows(asked: Question, above: Collection[str]) -> list[Policy]:
    """The policies of the effective model for this action, and those that ask for advertising."""
    actions = {asked.action} | ({"advertise"} if asked.action == "publish" else set())
    if len(lineage(asked.domain)) > 1:  # a policy of any kind may hide one from above
        rows = selectors.effective_rows(asked.domain)
        return [row for row in rows if row.action in actions]
    about = Q(action=asked.action, event_type__name__in=above) | Q(
        action__in=actions - {asked.action}
    )
    found = Policy.objects.filter(about, domain=asked.domain)
    return list(found.select_related("event_type", "domain").order_by("name"))


def _unknown(asked: Question, spoken: Language) -> tuple[Missing, ...]:
    if asked.type not in spoken.types.names:
        error = unknown("event type", asked.type, spoken.types.names)
        return (Missing("unknown-type", error.message),)
    names = [spec.name for spec in spoken.types.attributes(asked.type)]
    if asked.attribute is not None and asked.attribute not in names:
        error = unknown("attribute", asked.attribute, names)
        return (Missing("unknown-attribute", f"of `{asked.type}`, {error.message}"),)
    return ()


def _candidate(
    asked: Question, row: Policy, spoken: Language, advertised: grants.Advertising
) -> Candidate:
    missing = _status(row, asked.at)
    try:
        found = [
            each for each in grants.grants(row, spoken, advertised) if asked.type in each.types
        ]
    except InputError as error:
        broken = Missing("policy", f"policy `{row.name}` no longer fits the model: {error.message}")
        return Candidate(row, (Way(_NOTHING),), (*missing, broken))
    ways = [
        Way(way, _of_type(asked, way, spoken) + _listed(asked, row, grant.attributes))
        for grant in found
        for way in grant.conjunctions
    ]
    listing = [
        way for way in ways if not any(m.kind == "attribute-not-listed" for m in way.missing)
    ]
    if not ways:
        return Candidate(row, (Way(_NOTHING),), (*missing, *_environment(row, spoken)))
    return Candidate(row, tuple(listing or ways), missing)


_NOTHING = PolicyConjunction((), (), ())


def _status(row: Policy, at: datetime) -> tuple[Missing, ...]:
    name, found = row.name, []
    if not row.enabled:
        found.append(
            Missing("policy", f"policy `{name}` is switched off", (Step("enable-policy", name),))
        )
    if row.valid_from is not None and row.valid_from > at:
        text = f"policy `{name}` begins on {day(row.valid_from)}"
        found.append(Missing("policy", text, (Step("begin-policy", name),)))
    if row.valid_until is not None and row.valid_until <= at:
        text = f"policy `{name}` ended on {day(row.valid_until)}"
        found.append(Missing("policy", text, (Step("extend-policy", name),)))
    return tuple(found)


def _listed(asked: Question, row: Policy, listed: tuple[str, ...] | None) -> tuple[Missing, ...]:
    if asked.attribute is None or listed is None or asked.attribute in listed:
        return ()
    text = f"policy `{row.name}` does not permit attribute `{asked.attribute}`"
    step = Step("list-attribute", row.name, asked.attribute)
    return (Missing("attribute-not-listed", text, (step,)),)


def _of_type(asked: Question, way: PolicyConjunction, spoken: Language) -> tuple[Missing, ...]:
    """What a way tests of events that events of the type do not have."""
    known = {f"{EVENT}{spec.name}" for spec in spoken.types.attributes(asked.type)}
    needed = [each.attribute for each in way.event if each.op != "!has"]
    needed += [join.right for join in way.joins]
    absent = sorted({name.removeprefix(EVENT) for name in needed if name not in known})
    return tuple(
        Missing("event", f"the policy tests `{name}`, which events of type `{asked.type}` lack")
        for name in absent
    )


def _environment(row: Policy, spoken: Language) -> tuple[Missing, ...]:
    """Why no way of a policy is open while the environment is as it is."""
    ways = spoken.ways(row.expression, row.event_type.name)
    failing = [[each for each in way.environment if not each.holds(spoken.values)] for way in ways]
    least = min((each for each in failing if each), key=len, default=[])
    if least:
        return tuple(
            Missing("environment", must(each, spoken.values.get(each.attribute))) for each in least
        )
    if not ways:
        return (Missing("policy", f"the condition of policy `{row.name}` can never hold"),)
    text = f"nobody meets what policy `{row.name}` asks for now"
    return (Missing("policy", f"{text}: the environment or a policy on advertising forbids it"),)


def possible(condition: Iterable[Literal]) -> bool:
    """Whether an event could meet it, as far as equalities tell."""
    literals = list(condition)
    fixed = {each.attribute: each.value for each in literals if each.op == "=="}
    return all(
        each.holds({each.attribute: fixed[each.attribute]})  # type: ignore[dict-item]
        for each in literals
        if each.attribute in fixed
    )
