"""Who may do what in plain words: the effective access of a domain, and how two states differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from adminapp.policies.language import PolicyConjunction
from policyengine.attributes import Literal, Value

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
        action: publish or subscribe.
        types: each type it holds for, with the attributes it permits there.
        conjunctions: its normal form.
    """

    policy: str
    action: str
    types: Mapping[str, tuple[str, ...]]
    conjunctions: tuple[PolicyConjunction, ...]


@dataclass(frozen=True, order=True)
class Access:
    """One thing that a principal may do, and by which policy.

    Args:
        principal: name of the principal.
        handle: its handle.
        action: publish or subscribe.
        type: name of the event type.
        attributes: what it may write or read there.
        condition: on the event, in words (`where event.carrier is UA`); "" is always.
        policy: name of the policy.
    """

    principal: str
    handle: str
    action: str
    type: str
    attributes: tuple[str, ...]
    condition: str
    policy: str = ""


_Slot: TypeAlias = tuple[str, str, str, str]  # principal, handle, action, type


def effective(subjects: Iterable[Subject], rules: Iterable[Rule]) -> list[Access]:
    """Everything that the rules permit the subjects, by plain evaluation."""
    found = {  # several variants of a principal may have the same
        Access(
            subject.principal, subject.handle, rule.action, name, attributes, condition, rule.policy
        )
        for subject in subjects
        for rule in rules
        for condition in _conditions(subject, rule)
        for name, attributes in rule.types.items()
    }
    return sorted(found)


def difference(before: Iterable[Access], after: Iterable[Access]) -> list[Access]:
    """What `after` permits that `before` did not, whichever policies say so."""
    old, new = _by_slot(before), _by_slot(after)
    lines: list[Access] = []
    for slot in sorted(new):
        gained: dict[str, list[str]] = defaultdict(list)
        for attribute, conditions in new[slot].items():
            known = old.get(slot, {}).get(attribute, frozenset())
            if "" not in known:
                for condition in conditions - known:
                    gained[condition].append(attribute)
        lines += [
            Access(*slot, tuple(sorted(filter(None, names))), condition)
            for condition, names in sorted(gained.items())
        ]
    return lines


def _by_slot(lines: Iterable[Access]) -> dict[_Slot, dict[str, frozenset[str]]]:
    """For each principal, action and type: its attributes and under which conditions.

    The attribute "" stands for the event itself: a type without attributes can be received too.
    """
    found: dict[_Slot, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for line in lines:
        slot = (line.principal, line.handle, line.action, line.type)
        for attribute in ("", *line.attributes):
            found[slot][attribute].add(line.condition)
    return {
        slot: {
            attribute: frozenset([""] if "" in conditions else conditions)
            for attribute, conditions in attributes.items()
        }
        for slot, attributes in found.items()
    }


def _conditions(subject: Subject, rule: Rule) -> list[str]:
    """Under which conditions a rule permits a subject something; one that always holds is all."""
    found = [each.for_subject(subject.values) for each in rule.conjunctions]
    texts = [describe(literals) for literals in found if literals is not None]
    return [""] if "" in texts else list(dict.fromkeys(texts))


def describe(literals: Iterable[Literal]) -> str:
    """Literals on an event in words; "" when there are none."""
    parts = [_literal(literal) for literal in literals]
    return f"where {' and '.join(parts)}" if parts else ""


def _literal(literal: Literal) -> str:
    words = f"{literal.attribute} {_WORDS[literal.op]}"
    if literal.value is None:
        return words
    if isinstance(literal.value, tuple):
        return f"{words} {', '.join(_value(value) for value in literal.value)}"
    return f"{words} {_value(literal.value)}"


def _value(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
