"""Whether a change of event types breaks what is in force.

What a type means on the wire is agreed between those who publish it and those who subscribe to it.
Filters of subscriptions stand at the agents and nowhere else, so the control plane goes by what it
knows: the policies in force. Whatever a policy lets through, somebody may rely on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from adminapp.catalog import mapping, ports, protections, selectors
from adminapp.catalog.ports import Use
from adminapp.core import journal
from adminapp.core.errors import Problem
from adminapp.identity.lineage import descendants
from adminapp.identity.models import Domain
from policyengine.attributes import AttributeType
from policyengine.errors import InputError
from policyengine.privacy import Protection

BREAKING = "breaking"
WAY_OUT = "take what it breaks out of force first, or make it a new version of the type"
_BEFORE = "event types before"
_LISTED = 5


@dataclass(frozen=True)
class AttributeShape:
    """What publishers and subscribers rely on in an attribute."""

    type: AttributeType
    keys: frozenset[str]
    protection: Protection


@dataclass(frozen=True)
class TypeShape:
    """What they rely on in a type: its row, and its ancestors with the nearest first."""

    row: int
    above: tuple[str, ...]
    attributes: Mapping[str, AttributeShape]


Shape: TypeAlias = dict[str, TypeShape]


@dataclass(frozen=True)
class Difference:
    """One thing that those who rely on a type would miss.

    Args:
        type: the uppermost type that it concerns.
        attribute: the attribute, or "" for the type itself.
        says: what happens, for a person.
        types: every type concerned.
        lost: types above that it no longer stands below.
    """

    type: str
    attribute: str
    says: str
    types: frozenset[str]
    lost: frozenset[str] = frozenset()


def remember(domain: Domain) -> None:
    """Keep the types of a domain and of those below it as they are before a change of them."""
    book = journal.current()
    assert book is not None
    before: dict[int, Shape | None] = book.extra.setdefault(_BEFORE, {})
    for each in (domain, *descendants(domain)):
        if each.pk not in before:
            before[each.pk] = shape(each)


def problems(domain: Domain) -> Iterator[Problem]:
    """What the change that is running breaks in a domain; nothing when it changes no type."""
    book = journal.current()
    before = book.extra.get(_BEFORE, {}).get(domain.pk) if book is not None else None
    now = shape(domain) if before else None
    if not before or now is None:
        return
    found = differences(before, now)
    if not found:
        return
    standing = [
        _as_it_was(use, before, now) for use in ports.uses(domain) if not _is_new(book, use)
    ]
    for difference in found:
        broken = [use for use in standing if breaks(difference, use, before)]
        if broken:
            yield _problem(difference, broken)


def shape(domain: Domain) -> Shape | None:
    """The types in force; None where they do not fit together."""
    rows = selectors.domain_types(domain)
    try:
        types = mapping.event_types(rows)
    except InputError:
        return None  # the check of the types says why
    held = protections.in_force(rows)
    numbers = {row.name: row.pk for row in rows}
    return {
        name: TypeShape(
            numbers[name],
            types.ancestors(name),
            {
                spec.name: AttributeShape(
                    spec.type, frozenset(spec.keys), held[name][spec.name].protection
                )
                for spec in types.attributes(name)
            },
        )
        for name in types.names
    }


def differences(before: Shape, after: Shape) -> list[Difference]:
    """What was there and is not, or is not as it was; what is only added breaks nobody."""
    found: dict[tuple[str, str, str], set[str]] = {}
    moved: list[Difference] = []
    for name, was in before.items():
        now = after.get(name)
        if now is None:
            moved.append(Difference(name, "", f"`{name}` is no longer there", frozenset({name})))
            continue
        lost = frozenset(was.above) - set(now.above)
        if lost:
            listed = ", ".join(f"`{each}`" for each in sorted(lost))
            says = f"`{name}` no longer stands below {listed}"
            moved.append(Difference(name, "", says, frozenset({name}), lost))
        for attribute, shaped in was.attributes.items():
            says = _changed(shaped, now.attributes.get(attribute))
            if says:
                top = _uppermost(before, name, attribute)
                found.setdefault((top, attribute, says), set()).add(name)
    return [
        *moved,
        *(
            Difference(top, attribute, f"`{attribute}` of `{top}` {says}", frozenset(types))
            for (top, attribute, says), types in found.items()
        ),
    ]


def breaks(difference: Difference, use: Use, before: Shape) -> bool:
    """Whether something in force relies on what a difference takes away."""
    if not difference.attribute:
        if difference.lost:
            return use.event_type in difference.lost
        return use.event_type in difference.types
    return use.needs(difference.attribute) and any(
        use.event_type == name or use.event_type in before[name].above for name in difference.types
    )


def _uppermost(before: Shape, name: str, attribute: str) -> str:
    holders = [above for above in before[name].above if attribute in before[above].attributes]
    return holders[-1] if holders else name


def _changed(was: AttributeShape, now: AttributeShape | None) -> str:
    if now is None:
        return "goes"
    if not takes_all(was.type, now.type):
        return "takes other values than before"
    added = sorted(now.keys - was.keys)
    if added:
        return f"gets the key {', '.join(f'`{key}`' for key in added)}"
    if was.protection != now.protection and not _opened(was.protection, now.protection):
        return f"is protected otherwise ({_words(was.protection)}, now {_words(now.protection)})"
    return ""


def _opened(was: Protection, now: Protection) -> bool:
    """From a key to clear: whoever could open it can read it."""
    return was == protections.UNDER_KEYS and now == protections.CLEAR


def _words(protection: Protection) -> str:
    return f"{protection.kind} and sealed" if protection.sealed else protection.kind


def takes_all(was: AttributeType, now: AttributeType) -> bool:
    """Whether every value of a type is one of another, so that nobody sees a value refused."""
    if was.kind != now.kind:
        return False
    return (
        set(was.values) <= set(now.values)
        and _below(now.minimum, was.minimum)
        and _below(_negated(now.maximum), _negated(was.maximum))
        and (now.step is None or (now.step, now.minimum) == (was.step, was.minimum))
    )


def _below(now: float | None, was: float | None) -> bool:
    return now is None or (was is not None and now <= was)


def _negated(value: float | None) -> float | None:
    return None if value is None else -value


def _as_it_was(use: Use, before: Shape, now: Shape) -> Use:
    """A use follows its type to a new name; those who rely on it do not."""
    held = now.get(use.event_type)
    names = {shaped.row: name for name, shaped in before.items()}
    if held is None or held.row not in names:
        return use
    return replace(use, event_type=names[held.row])


def _is_new(book: Any, use: Use) -> bool:
    """What the same change has made was not in force before, so that nobody relies on it."""
    return any(
        item.before is None
        and (item.kind, item.domain, item.key) == (use.kind, use.owner, use.name)
        for item in book.items
    )


def _problem(difference: Difference, broken: list[Use]) -> Problem:
    listed = ", ".join(f"{use.kind} `{use.name}` ({use.says()})" for use in broken[:_LISTED])
    more = f" and {len(broken) - _LISTED} more" if len(broken) > _LISTED else ""
    pointer = f"/attributes/{difference.attribute}" if difference.attribute else ""
    return Problem(pointer, f"{difference.says}: this breaks {listed}{more}; {WAY_OUT}", BREAKING)
