"""Why a principal may do something, as a chain of rules; or what it lacks, the nearest first.

Only the policies that have to do with the question are read, and of the principals only the one
that is asked about.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.utils import timezone

from adminapp.agreements import selectors as agreements
from adminapp.agreements.effect import Opening
from adminapp.catalog.mapping import EVENT
from adminapp.identity.models import Domain, Principal
from adminapp.policies import candidates, chains, remedies, standing
from adminapp.policies.access import Condition, describe
from adminapp.policies.candidates import Candidate, Question, Way
from adminapp.policies.chains import Reason
from adminapp.policies.remedies import Missing, Step, must
from adminapp.policies.standing import Guest, Standing, Variant
from policyengine.attributes import Literal, Schema, Value

__all__ = ["Alternative", "Contrast", "Explanation", "Missing", "Reason", "Step"]

_SHOWN = 5  # alternatives that are listed
_TRIED = 16  # alternatives whose steps are tried out


@dataclass(frozen=True)
class Alternative:
    """One way to be permitted, and what is missing for it.

    Args:
        policy: name of the policy.
        condition: what it would ask of an event, in words.
        missing: what is missing, all of it.
        sufficient: whether the steps of all that is missing, once taken, would do.
    """

    policy: str
    condition: str
    missing: tuple[Missing, ...]
    sufficient: bool


@dataclass(frozen=True)
class Explanation:
    """The answer to a question.

    Args:
        question: what was asked.
        allowed: whether it may.
        condition: on the event, in words; "" is always.
        summary: the answer in one sentence.
        chain: why, one reason a line, each below what it is a reason for.
        missing: what is missing for the nearest way; nothing where it may.
        alternatives: every way that is near, the nearest first.
    """

    question: Question
    allowed: bool
    condition: str
    summary: str
    chain: tuple[Reason, ...] = ()
    missing: tuple[Missing, ...] = ()
    alternatives: tuple[Alternative, ...] = ()


@dataclass(frozen=True)
class Contrast:
    """Why one principal may and another may not.

    Args:
        first: the answer for the one.
        second: the answer for the other.
        summary: the difference in one sentence.
        differences: what the other lacks of what lets the one, or the other way round.
    """

    first: Explanation
    second: Explanation
    summary: str
    differences: tuple[Missing, ...] = ()


@dataclass(frozen=True)
class _Met:
    """A way that the principal satisfies."""

    candidate: Candidate
    way: Way
    variant: Variant
    condition: Condition


def explain(
    domain: Domain,
    principal: Principal,
    action: str,
    type: str,  # noqa: A002
    attribute: str | None = None,
    *,
    at: datetime | None = None,
    event: Mapping[str, Value] | None = None,
) -> Explanation:
    """Why a principal may do something with events of a type, or why not.

    Args:
        domain: whose events they are.
        action: define, advertise, publish or subscribe.
        type: name of the event type.
        attribute: None asks for the event as such.
        at: the moment; now by default.
        event: values of one event, by name of the attribute; without them the answer says under
            which condition.
    """
    asked = Question(domain, principal, action, type, attribute, at or timezone.now(), event)
    return _answer(asked)


def contrast(asked: Question, other: Principal) -> Contrast:
    """Why one principal may and another may not: "why her and not him"."""
    one, two = _answer(asked), _answer(replace(asked, principal=other))
    names = asked.principal.name, other.name
    if one.allowed == two.allowed:
        word = "may both" if one.allowed else "may neither of them"
        return Contrast(one, two, f"{names[0]} and {names[1]} {word} {asked.deed}")
    may, may_not = (one, two) if one.allowed else (two, one)
    granting = {reason.name for reason in may.chain if reason.kind == "policy"}
    lacking = next((a for a in may_not.alternatives if a.policy in granting), None)
    missing = lacking.missing if lacking else may_not.missing
    whom, whom_not = may.question.principal.name, may_not.question.principal.name
    why = "; ".join(each.text for each in missing)
    return Contrast(
        one,
        two,
        f"{whom} may {asked.deed} and {whom_not} may not: for {whom_not}, {why}",
        missing,
    )


def _answer(asked: Question) -> Explanation:
    context = candidates.read(asked)
    if context.unknown:
        return _denied(asked, [Alternative("", "", context.unknown, sufficient=False)])
    if not context.candidates:
        text = f"no policy is about who may {asked.deed}"
        return _denied(asked, [Alternative("", "", (Missing("policy", text),), sufficient=False)])
    answers = [
        _weighed(asked, has, replace(context, candidates=tuple(found)))
        for has, found in _as_seen(asked, context)
    ]
    return min(answers, key=lambda each: (not each.allowed, _distance(each)))


def _as_seen(
    asked: Question, context: candidates.Context
) -> Iterator[tuple[Standing, Iterable[Candidate]]]:
    """The principal as policies see it, and the policies as they hold for it.

    A guest is somebody else through each agreement that lets it in.
    """
    home = asked.principal.domain
    openings = [] if home.pk == asked.domain.pk else _openings(asked)
    wanted = {each.role for one in openings for each in one.roles} or context.roles()
    own = standing.read(asked.principal, standing.read_rules(home, wanted), at=asked.at)
    if not openings:
        yield own, context.candidates
    for one in openings:
        seen = standing.guest(own, one, context.spoken.subject)
        held = (candidates.opened(each, asked, one, context.spoken) for each in context.candidates)
        yield seen, held


def _openings(asked: Question) -> list[Opening]:
    found = agreements.openings(asked.domain, at=asked.at)
    return [each for each in found if each.consumer == asked.principal.domain.name]


def _weighed(asked: Question, has: Standing, context: candidates.Context) -> Explanation:
    barred = _barred(asked, has)
    met = [] if barred else [each for one in context.candidates for each in _met(asked, one, has)]
    if met:
        return _allowed(asked, met, has, context)
    return _denied(asked, _nearest(asked, has, context))


def _nearest(asked: Question, has: Standing, context: candidates.Context) -> Sequence[Alternative]:
    """The nearest ways; whether their steps would do is tried out for them alone."""
    found = [
        _lack(asked, candidate, way, has, context.spoken.subject)
        for candidate in context.candidates
        for way in candidate.ways
    ]
    found.sort(key=lambda each: (sum(m.weight for m in each.missing), each.candidate.policy.name))
    tried: list[Alternative] = []
    for each in found[:_TRIED]:
        tried.append(each.alternative(asked, has))
        if sum(one.sufficient for one in tried) == _SHOWN:
            break
    return tried


def _distance(answer: Explanation) -> tuple[bool, int]:
    nearest = answer.alternatives[:1]
    enough = any(each.sufficient for each in nearest)
    return not enough, sum(each.weight for each in answer.missing)


def _barred(asked: Question, has: Standing) -> tuple[Missing, ...]:
    """What keeps a principal from everything, whatever policies say."""
    row = asked.principal
    if row.state != Principal.State.ACTIVE:
        when = f" on {remedies.day(row.revoked_at)}" if row.revoked_at else ""
        return (Missing("revoked", f"`{row.name}` was revoked{when}"),)
    if row.domain_id != asked.domain.pk and not isinstance(has, Guest):
        names = f"`{row.domain.name}` and `{asked.domain.name}`"
        text = f"no agreement between {names} is in force that lets its principals in"
        return (Missing("agreement", text),)
    return ()


# -- allowed ---------------------------------------------------------------------------------


def _met(asked: Question, candidate: Candidate, has: Standing) -> list[_Met]:
    """The ways of a policy that the principal satisfies."""
    if candidate.missing:
        return []
    return [
        _Met(candidate, way, variant, condition)
        for way in candidate.ways
        if not way.missing
        for variant, condition in _conditions(asked, way, has)
    ]


def _conditions(asked: Question, way: Way, has: Standing) -> list[tuple[Variant, Condition]]:
    """Under which conditions on the event a principal satisfies a way, as which variant."""
    found = ((variant, way.conjunction.for_subject(variant)) for variant in has.variants)
    return [
        (variant, condition)
        for variant, condition in found
        if condition is not None and not _failing(asked, condition)
    ]


def _failing(asked: Question, condition: Iterable[Literal]) -> list[Literal]:
    """What an event does not meet; of no particular event what none could."""
    if asked.event is None:
        return [] if candidates.possible(condition) else list(condition)
    values = {f"{EVENT}{name}": value for name, value in asked.event.items()}
    return [each for each in condition if not each.holds(values)]


def _allowed(
    asked: Question, met: Sequence[_Met], has: Standing, context: candidates.Context
) -> Explanation:
    best = min(met, key=lambda each: (len(each.condition), each.candidate.policy.name))
    condition = "" if asked.event is not None else describe(best.condition)
    others = sorted({each.candidate.policy.name for each in met} - {best.candidate.policy.name})
    chain = chains.allowed(best.candidate, best.way, best.variant, has, context)
    if others:
        listed = ", ".join(f"`{name}`" for name in others)
        chain = (*chain, Reason(0, "also", f"it would also be permitted by {listed}"))
    text = f"{asked.principal.name} may {asked.deed}"
    return Explanation(asked, True, condition, f"{text} {condition}".strip(), chain)


# -- denied ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Lack:
    """Everything that is missing for one way."""

    candidate: Candidate
    way: Way
    missing: tuple[Missing, ...]

    def alternative(self, asked: Question, has: Standing) -> Alternative:
        """With whether the steps would do."""
        way = self.way.conjunction
        return Alternative(
            self.candidate.policy.name,
            describe((*way.event, *way.joins)),
            self.missing,
            all(each.steps for each in self.missing) and self._suffices(asked, has),
        )

    def _suffices(self, asked: Question, has: Standing) -> bool:
        event = asked.event
        if event is not None:
            steps = (step for each in self.missing for step in each.steps)
            event = {**event, **{each.name: each.value for each in steps if each.kind == "event"}}
        then = remedies.mended(has.about(candidates.roles_of(self.way.conjunction)), self.missing)
        return bool(_conditions(replace(asked, event=event), self.way, then))


def _lack(asked: Question, candidate: Candidate, way: Way, has: Standing, schema: Schema) -> _Lack:
    event = None
    if asked.event is not None:
        event = {f"{EVENT}{name}": value for name, value in asked.event.items()}
    subject = remedies.lacking(has, way.conjunction, schema, asked.at, event)
    about_event = [] if event is None else _event_lacks(way, event, has, subject)
    missing = [*_barred(asked, has), *candidate.missing, *way.missing, *subject, *about_event]
    return _Lack(candidate, way, tuple(dict.fromkeys(missing)))


def _event_lacks(
    way: Way, event: Mapping[str, Value], has: Standing, subject: Sequence[Missing]
) -> list[Missing]:
    """What an event would have to be for this way."""
    wanted = list(way.conjunction.event)
    absent = [join for join in way.conjunction.joins if join.right not in event]
    if absent:
        then = remedies.mended(has, subject)
        for join in absent:
            values = [variant[join.left] for variant in then.variants if join.left in variant]
            wanted += [Literal(join.right, "==", value) for value in values[:1]]
    failing = [each for each in wanted if not each.holds(event)]
    return [
        Missing("event", must(each, event.get(each.attribute)), _step(each)) for each in failing
    ]


def _step(literal: Literal) -> tuple[Step, ...]:
    name = literal.attribute.removeprefix(EVENT)
    value = literal.value if literal.op in ("==", "<=", ">=") else None
    if literal.op == "in" and isinstance(literal.value, tuple):
        value = literal.value[0]
    return () if value is None else (Step("event", name, value),)


def _denied(asked: Question, found: Sequence[Alternative]) -> Explanation:
    ranked = sorted(
        dict.fromkeys(found),
        key=lambda each: (
            not each.sufficient,
            sum(missing.weight for missing in each.missing),
            each.policy,
        ),
    )
    nearest = ranked[0]
    why = "; ".join(each.text for each in nearest.missing)
    return Explanation(
        asked,
        False,
        "",
        f"{asked.principal.name} may not {asked.deed}: {why}",
        missing=nearest.missing,
        alternatives=tuple(ranked[:_SHOWN]),
    )
