"""Why something is permitted, line by line: policy, conditions, roles, appointments, keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models import Prefetch

from adminapp.catalog import selectors as catalog
from adminapp.catalog.models import AttributeKey
from adminapp.policies.access import describe, literal_words, value_words
from adminapp.policies.candidates import Candidate, Context, Question, Way
from adminapp.policies.remedies import day
from adminapp.policies.standing import Ground, Guest, Proof, Standing, Variant
from adminapp.roles.mapping import ROLE
from adminapp.trustgroups.models import TrustGroup
from policyengine.attributes import Literal
from policyengine.roles import Atom


@dataclass(frozen=True)
class Reason:
    """One line of a chain.

    Args:
        depth: how far below the first it stands: it is a reason for the line above that is less
            deep.
        kind: `policy`, `attribute`, `role`, `appointment`, `constraint`, `condition`, `key`,
            `inherited`, `limit`, `also`.
        text: the reason in words.
        name: of the policy, role, appointment or key; "" for others.
    """

    depth: int
    kind: str
    text: str
    name: str = ""


def allowed(
    candidate: Candidate, way: Way, variant: Variant, has: Standing, context: Context
) -> tuple[Reason, ...]:
    """Everything that a permission rests on."""
    asked = context.asked
    return (
        *_policy(asked, candidate),
        *_agreement(has),
        *_subject(way, variant, has),
        *_event(asked, way, variant),
        *_keys(asked, context),
    )


def _policy(asked: Question, candidate: Candidate) -> Iterator[Reason]:
    row = candidate.policy
    about = f"`{row.event_type.name}`"
    below = "" if row.event_type.name == asked.type else f", of which `{asked.type}` is a sub-type"
    yield Reason(
        0, "policy", f"policy `{row.name}` permits to {row.action} {about}{below}", row.name
    )
    if row.domain_id != asked.domain.pk:
        text = f"the policy is inherited from domain `{row.domain.name}`"
        yield Reason(1, "inherited", text, row.domain.name)
    if row.limit_words:
        text = f"each publisher may publish {row.limit_words} by this policy"
        yield Reason(1, "limit", text)
    if row.valid_until is not None:
        yield Reason(1, "validity", f"the policy holds until {day(row.valid_until)}")


def _agreement(has: Standing) -> Iterator[Reason]:
    """Which agreement lets a guest in, and which of its roles counts as which of ours."""
    if not isinstance(has, Guest):
        return
    one = has.opening
    text = f"agreement `{one.name}` lets principals of `{one.consumer}` in, until {day(one.ends)}"
    yield Reason(1, "agreement", text, one.name)
    active = {name for name, _ in has.active}
    for each in one.roles:
        if each.role in active:
            text = f"it counts role `{each.role}` of `{one.consumer}` as `{each.known_as}`"
            yield Reason(2, "role", text, each.known_as)


def _subject(way: Way, variant: Variant, has: Standing) -> Iterator[Reason]:
    shown: set[str] = set()
    for literal in way.conjunction.subject:
        if literal.attribute.startswith(f"{ROLE}."):
            role = literal.attribute.removeprefix(f"{ROLE}.").partition(".")[0]
            if literal.op == "!has":
                yield Reason(1, "role", f"role `{role}` is not active", role)
            elif role not in shown:
                shown.add(role)
                yield from _role(role, variant, has)
        else:
            yield Reason(1, "attribute", _holding(literal, variant), literal.attribute)


def _holding(literal: Literal, variant: Variant) -> str:
    value = variant.get(literal.attribute)
    words = literal_words(literal)
    if value is None or literal.op in ("==", "has"):
        shown = "" if value is None or literal.op == "==" else f": it is {value_words(value)}"
        return f"{words}{shown}"
    return f"{words}: it is {value_words(value)}"


def _role(role: str, variant: Variant, has: Standing) -> Iterator[Reason]:
    ground = has.activation(role, variant)
    proof = None if ground is None else has.proof(ground)
    if proof is None:
        yield Reason(1, "role", f"role `{role}` is active", role)
        return
    yield from _proof(proof, has, 1)


def _proof(proof: Proof, has: Standing, depth: int) -> Iterator[Reason]:
    name = proof.role[0]
    yield Reason(depth, "role", f"role {_shown(proof.role)} is active by rule {proof.number}", name)
    for each in proof.roles:
        yield from _proof(each, has, depth + 1)
    for ground in proof.appointments:
        yield Reason(depth + 1, "appointment", _appointed(ground, has), ground[0])
    for text in proof.constraints:
        yield Reason(depth + 1, "constraint", f"constraint `{text}` is met")


def _appointed(ground: Ground, has: Standing) -> str:
    rows = [each for each in has.appointments if each.ground == ground]
    lasting = [each for each in rows if each.ends is None] or sorted(
        rows, key=lambda each: (each.ends is None, each.ends or each.starts)
    )[-1:]
    if not lasting:
        return f"appointment {_shown(ground)} is held"
    row = lasting[0]
    by = f" by {row.issuer}" if row.issuer else ""
    until = "for good" if row.ends is None else f"until {day(row.ends)}"
    return f"appointment {_shown(ground)} was given{by}, from {day(row.starts)}, {until}"


def _event(asked: Question, way: Way, variant: Variant) -> Iterator[Reason]:
    condition = way.conjunction.for_subject(variant) or ()
    if not condition:
        return
    if asked.event is not None:
        yield Reason(1, "condition", f"the event meets the condition {describe(condition)}")
        return
    yield Reason(1, "condition", f"of the events only those {describe(condition)}")


def _keys(asked: Question, context: Context) -> Iterator[Reason]:
    """Which brokers could read the attribute: those of trust groups that hold one of its keys."""
    if asked.attribute is None or asked.action not in ("publish", "subscribe"):
        return
    specs = context.spoken.types.attributes(asked.type)
    keys = next(spec.keys for spec in specs if spec.name == asked.attribute)
    if not keys:
        text = f"`{asked.attribute}` has no attribute key: every broker on the way can read it"
        yield Reason(0, "key", text)
        return
    rows = {row.name: row for row in _key_rows(asked, keys)}
    for name in keys:
        groups = [] if name not in rows else [g.name for g in rows[name].trust_groups.all()]
        listed = ", ".join(f"`{group}`" for group in groups)
        text = (
            f"only brokers of {listed} hold key `{name}` and can read `{asked.attribute}`"
            if groups
            else f"no trust group holds key `{name}`: no broker can read `{asked.attribute}` by it"
        )
        yield Reason(0, "key", text, name)


def _key_rows(asked: Question, keys: tuple[str, ...]) -> list[AttributeKey]:
    found = [
        each.row.pk
        for each in catalog.effective_attribute_keys(asked.domain)
        if each.row.name in keys
    ]
    kind = TrustGroup.Kind.ATTRIBUTE
    groups = TrustGroup.objects.filter(kind=kind, domain=asked.domain).order_by("name")
    return list(
        AttributeKey.objects.filter(pk__in=found).prefetch_related(
            Prefetch("trust_groups", queryset=groups)
        )
    )


def _shown(ground: Ground) -> str:
    return f"`{Atom(ground[0], tuple(ground[1])).text}`"
