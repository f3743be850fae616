"""What an agreement does to the decisions of a domain: pure, without rows.

A principal of the consumer is judged by the provider's own policies, as somebody who has the
mapped roles and the passed attributes and nothing else, and never gets more of an event than the
agreement opens: every policy is intersected with every ceiling (paper 002, section 3: a role of
one domain may receive certain attributes of certain types of another).

Each agreement stands alone. What one passes on says nothing about what another opens, so a guest
is one subject for each agreement, and in the encodings each agreement has names of its own:
`subject.role.officer` of agreement 7 is `subject.agreement.a7.role.officer`, which no rule for
locals and no rule of another agreement asks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol, TypeVar

from adminapp.agreements.terms import Ceiling, RoleMapping
from adminapp.catalog.mapping import SUBJECT
from adminapp.roles.mapping import role_attribute
from policyengine.attributes import Join, Literal, Schema, Value
from policyengine.errors import InputError
from policyengine.events import EventTypes

DOMAIN = f"{SUBJECT}domain"
"""The name of a guest's own domain; locals have no such attribute."""
LOCAL = f"{SUBJECT}agreement.none"
"""True of every principal of the domain itself, where rules must keep guests out.

Nobody can declare an attribute of this name, nor of those of an agreement: a declared one has no
point after `subject.`, and those of roles begin with `subject.role.`.
"""


@dataclass(frozen=True)
class Opening:
    """An agreement in force, as the provider sees it.

    Args:
        agreement: its primary key.
        name: its name.
        provider: name of the domain whose events are opened.
        consumer: name of the domain whose principals are let in.
        roles: which roles of theirs count as which of ours.
        ceilings: the most that is opened.
        subject_attributes: names of the consumer's attributes that our policies may see.
        starts: when it began.
        ends: when it lapses.
    """

    agreement: int
    name: str
    provider: str
    consumer: str
    roles: tuple[RoleMapping, ...]
    ceilings: tuple[Ceiling, ...]
    subject_attributes: tuple[str, ...]
    starts: datetime
    ends: datetime

    @property
    def mark(self) -> str:
        """True of everybody who comes through this agreement."""
        return f"{SUBJECT}agreement.a{self.agreement}"


class Conjunctive(Protocol):
    """One way to satisfy a policy, split into its sides (`policies.language`)."""

    @property
    def subject(self) -> tuple[Literal, ...]: ...

    @property
    def event(self) -> tuple[Literal, ...]: ...

    @property
    def joins(self) -> tuple[Join, ...]: ...


C = TypeVar("C", bound=Conjunctive)


# -- who ---------------------------------------------------------------------------------------


def foreign_values(
    opening: Opening, values: Mapping[str, Value], schema: Schema
) -> dict[str, Value] | None:
    """What the provider's policies see of a consumer's principal; None when it is not let in.

    Who has none of the mapped roles is nobody here, whatever the policies say.

    Args:
        opening: the agreement through which it comes.
        values: what its own domain sees of it, by full name.
        schema: types of the provider's `subject.*`; a value that does not fit is not passed on.
    """
    held: dict[str, Value] = {
        role_attribute(mapped.known_as): True
        for mapped in opening.roles
        if values.get(role_attribute(mapped.role)) is True
    }
    if not held:
        return None
    passed = {
        f"{SUBJECT}{name}": value
        for name in opening.subject_attributes
        if (value := _fitting(values, schema, f"{SUBJECT}{name}")) is not None
    }
    return {**passed, **held, DOMAIN: opening.consumer}


def _fitting(values: Mapping[str, Value], schema: Schema, name: str) -> Value | None:
    if name not in values or name not in schema:
        return None
    try:
        return schema[name].check(values[name], name)
    except InputError:
        return None


# -- what --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Narrowed:
    """What is left of a policy under one ceiling.

    Args:
        type: the lower one of the two types.
        attributes: what both permit, or None for all.
    """

    type: str
    attributes: tuple[str, ...] | None


def narrowed(
    opening: Opening,
    *,
    action: str,
    event_type: str,
    attributes: Iterable[str] | None,
    types: EventTypes,
) -> tuple[Narrowed, ...]:
    """What an agreement lets through of a policy; empty when nothing.

    An event that a policy and a ceiling both speak of is an event of both types, and in a tree
    one of the two then stands below the other. Rights add up, as those of several policies do.

    Args:
        action: what the policy permits.
        event_type: the type it hangs on.
        attributes: names it permits, or None for all.
        types: the provider's event types.
    """
    own = None if attributes is None else tuple(attributes)
    found = [
        Narrowed(lower, _intersection(own, ceiling.attributes))
        for ceiling in opening.ceilings
        if ceiling.action == action
        and (lower := _lower(types, event_type, ceiling.type)) is not None
    ]
    return tuple(dict.fromkeys(found))


def _lower(types: EventTypes, one: str, other: str) -> str | None:
    if one not in types.names or other not in types.names:
        return None
    if types.is_a(one, other):
        return one
    return other if types.is_a(other, one) else None


def _intersection(
    one: tuple[str, ...] | None, other: tuple[str, ...] | None
) -> tuple[str, ...] | None:
    if one is None or other is None:
        return other if one is None else one
    return tuple(name for name in one if name in other)


# -- names of their own ------------------------------------------------------------------------


def enclosed_name(opening: Opening, name: str) -> str:
    """The name of a subject's attribute among those of one agreement."""
    return f"{opening.mark}.{name.removeprefix(SUBJECT)}"


def enclosed_values(opening: Opening, values: Mapping[str, Value]) -> dict[str, Value]:
    """What `foreign_values` gave, under the agreement's own names, and its mark."""
    inside = {enclosed_name(opening, name): value for name, value in values.items()}
    return {**inside, opening.mark: True}


def enclosed(opening: Opening, conjunction: C) -> C:
    """A conjunction of a policy that holds for guests of one agreement and nobody else.

    INVARIANT: it tests something that only this agreement's guests have: one of its names where
    the policy tests for a presence, else its mark (`true` and `!has(...)` hold for anybody).
    """
    subject = tuple(
        replace(literal, attribute=enclosed_name(opening, literal.attribute))
        for literal in conjunction.subject
    )
    joins = tuple(
        replace(join, left=enclosed_name(opening, join.left)) for join in conjunction.joins
    )
    if _holds_for_anybody(conjunction):
        subject = (*subject, Literal(opening.mark, "==", True))
    return replace(conjunction, subject=subject, joins=joins)  # type: ignore[type-var]


def kept_local(conjunction: C) -> C:
    """A conjunction of a policy that holds for the domain's own principals and nobody else."""
    if not _holds_for_anybody(conjunction):
        return conjunction
    subject = (*conjunction.subject, Literal(LOCAL, "==", True))
    return replace(conjunction, subject=subject)  # type: ignore[type-var]


def _holds_for_anybody(conjunction: Conjunctive) -> bool:
    """Whether somebody without a single attribute could satisfy the subject's side."""
    return not conjunction.joins and all(literal.op == "!has" for literal in conjunction.subject)
