"""Who may do what in plain words: what policies permit, and lines of access made from it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from adminapp.policies.language import PolicyConjunction
from policyengine.attributes import Join, Literal, Value

_WORDS = {
    "==": "is",
    "!=": "is not",
    "<": "is below",
    "<=": "is at most",
    ">": "is above",
    ">=": "is at least",
    "in": "is one of",
    "!in": "is none of",
    "startsWith": "begins with",
    "!startsWith": "does not begin with",
    "endsWith": "ends with",
    "!endsWith": "does not end with",
    "has": "is given",
    "!has": "is not given",
}
_RIGHTS = {"publish": "write", "subscribe": "read"}

Condition: TypeAlias = tuple[Literal, ...]
"""What must hold of an event, all of it; the empty one always does."""
Slot: TypeAlias = tuple[str, str]
"""Action and event type."""
EVENT_ITSELF = ""
"""Stands for the event as such: a type without attributes can be received too."""


@dataclass(frozen=True)
class Subject:
    """A principal as policies see it.

    Args:
        principal: its name.
        handle: its handle.
        kind: publisher, subscriber, service or person.
        values: what policies may test, by full name.
    """

    principal: str
    handle: str
    kind: str
    values: Mapping[str, Value]


@dataclass(frozen=True)
class Rule:
    """A policy, ready to be evaluated.

    Args:
        policy: its name.
        action: define, advertise, publish or subscribe.
        types: each type it holds for, with the attributes it permits there.
        conjunctions: its normal form.
    """

    policy: str
    action: str
    types: Mapping[str, tuple[str, ...]]
    conjunctions: tuple[PolicyConjunction, ...]


@dataclass(frozen=True, order=True)
class Access:
    """One thing that a principal may do, and by which policies.

    Args:
        principal: name of the principal.
        handle: its handle.
        action: define, advertise, publish or subscribe.
        type: name of the event type.
        attributes: what it may write or read there.
        condition: on the event, in words (`where event.carrier is UA`); "" is always.
        policies: names of the policies that permit it, each of them alone.
        domain: name of the domain that the principal belongs to.
        agreement: name of the agreement that lets it in; "" for the domain's own principals.
    """

    principal: str
    handle: str
    action: str
    type: str
    attributes: tuple[str, ...]
    condition: str
    policies: tuple[str, ...] = ()
    domain: str = ""
    agreement: str = ""

    @property
    def right(self) -> str:
        """What the action means for the attributes: `write`, `read`, or the action itself."""
        return right(self.action)


@dataclass(frozen=True)
class Holding:
    """What one way to satisfy a policy gives one principal.

    Args:
        policy: name of the policy.
        action: what it permits.
        types: for which types, and which attributes there.
        condition: what must hold of an event for this principal.
    """

    policy: str
    action: str
    types: Mapping[str, tuple[str, ...]]
    condition: Condition


@dataclass(frozen=True)
class Line:
    """What some principals may do, whoever they are; the fields are those of `Access`."""

    action: str
    type: str
    attributes: tuple[str, ...]
    condition: Condition
    policies: tuple[str, ...]

    @cached_property
    def words(self) -> str:
        """The condition in words."""
        return describe(self.condition)

    def of(self, principal: str, handle: str, domain: str, agreement: str = "") -> Access:
        """The same for one principal."""
        return Access(
            principal,
            handle,
            self.action,
            self.type,
            self.attributes,
            self.words,
            self.policies,
            domain,
            agreement,
        )


Slots: TypeAlias = dict[Slot, dict[str, dict[Condition, set[str]]]]
"""By action and type: each attribute, under which conditions, by which policies."""


def slots(holdings: Iterable[Holding], wanted: Collection[Slot] | None = None) -> Slots:
    """Lay out what some rules permit together, slot by slot.

    What holds always makes conditions superfluous: only that is left.
    """
    found: Slots = {}
    for holding in holdings:
        for name, attributes in holding.types.items():
            slot = (holding.action, name)
            if wanted is not None and slot not in wanted:
                continue
            there = found.setdefault(slot, {})
            for attribute in (EVENT_ITSELF, *attributes):
                under = there.setdefault(attribute, {})
                under.setdefault(holding.condition, set()).add(holding.policy)
    for there in found.values():
        for attribute, under in there.items():
            if () in under and len(under) > 1:
                there[attribute] = {(): under[()]}
    return found


def lines(held: Slots, attribute: str | None = None) -> list[Line]:
    """What slots hold, attributes of one kind together.

    Args:
        attribute: only this one; all by default.
    """
    found: list[Line] = []
    for slot in sorted(held):
        together: dict[tuple[Condition, tuple[str, ...]], list[str]] = defaultdict(list)
        for name, under in held[slot].items():
            if attribute in (None, name):
                for condition, policies in under.items():
                    together[condition, tuple(sorted(policies))].append(name)
        found += _slot_lines(slot, together)
    return found


def _slot_lines(
    slot: Slot, together: Mapping[tuple[Condition, tuple[str, ...]], list[str]]
) -> Iterator[Line]:
    # The event as such is worth a line only where none of its attributes has one.
    named = {condition for (condition, _), names in together.items() if any(names)}
    ordered = sorted(together.items(), key=lambda item: (describe(item[0][0]), item[0][1]))
    for (condition, policies), names in ordered:
        attributes = tuple(name for name in names if name)
        if attributes or condition not in named:
            yield Line(*slot, attributes, condition, policies)


def gained(before: Slots, after: Slots) -> dict[Slot, dict[str, list[Condition]]]:
    """What `after` permits that `before` did not, whichever policies say so.

    A condition is nothing new where one was known that asks for less.
    """
    found: dict[Slot, dict[str, list[Condition]]] = {}
    for slot, attributes in after.items():
        known = before.get(slot, {})
        new: dict[str, list[Condition]] = {}
        for attribute, under in attributes.items():
            weaker = [frozenset(condition) for condition in known.get(attribute, ())]
            extra = [
                condition
                for condition in under
                if not any(each.issubset(condition) for each in weaker)
            ]
            if extra:
                new[attribute] = extra
        if new:
            found[slot] = new
    return found


def gained_lines(found: Mapping[Slot, Mapping[str, Iterable[Condition]]]) -> list[Line]:
    """A gain as lines, attributes under one condition together."""
    made: list[Line] = []
    for slot in sorted(found):
        together: dict[tuple[Condition, tuple[str, ...]], list[str]] = defaultdict(list)
        for attribute, conditions in found[slot].items():
            for condition in conditions:
                together[condition, ()].append(attribute)
        made += _slot_lines(slot, {key: sorted(names) for key, names in together.items()})
    return made


def gained_count(found: Mapping[Slot, Mapping[str, object]]) -> int:
    """How many attributes of how many slots; a slot without attributes counts once."""
    return sum(len(attributes.keys() - {EVENT_ITSELF}) or 1 for attributes in found.values())


def right(action: str) -> str:
    """What an action means for attributes: `write`, `read`, or the action itself."""
    return _RIGHTS.get(action, action)


def describe(literals: Iterable[Literal | Join]) -> str:
    """Conditions on an event in words; "" when there are none."""
    parts = [literal_words(literal) for literal in literals]
    return f"where {' and '.join(parts)}" if parts else ""


def literal_words(literal: Literal | Join) -> str:
    """One literal in words: `event.delay is above 120`."""
    if isinstance(literal, Join):
        return f"{literal.right} is {literal.left}"
    words = f"{literal.attribute} {_WORDS[literal.op]}"
    if literal.value is None:
        return words
    if isinstance(literal.value, tuple):
        return f"{words} {', '.join(value_words(value) for value in literal.value)}"
    return f"{words} {value_words(literal.value)}"


def value_words(value: Value) -> str:
    """A value as people write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
