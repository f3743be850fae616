"""Restriction: what may not be read or written is left out, not the whole event.

Bacon et al., section 4.2: a publication or subscription is narrowed to what the
type-specific read-write policy allows instead of being refused. By attribute here; by
value, and to super-types, in `policyengine.events.rules`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from policyengine.attributes import shown, unknown
from policyengine.events.reading import as_object, as_texts, at, placed
from policyengine.events.types import EventTypes

NOT_PERMITTED: Final = "not-permitted"
"""No rule that holds names the attribute."""

Direction: TypeAlias = Literal["read", "write"]
Entries: TypeAlias = Mapping[str, Mapping[str, Collection[str]]]
"""Role -> event type -> the attributes that it may read, or write."""


@dataclass(frozen=True, slots=True)
class Removed:
    """One attribute that was left out.

    Args:
        attribute: its name.
        reason: one word, fit for a program.
        detail: the same in plain words: who was asked, and what decided.
    """

    attribute: str
    reason: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Restricted:
    """What is left of a list of attributes.

    Args:
        kept: names that may stay, in the given order.
        removed: the others, in the given order.
    """

    kept: tuple[str, ...]
    removed: tuple[Removed, ...]


def restrict(names: Sequence[str], allowed: Collection[str] | None) -> Restricted:
    """Narrow a list of attributes to what is allowed; never adds one.

    Args:
        names: attributes of a publication or subscription.
        allowed: what policy permits; None where no rule speaks of attributes, and
            everything is kept.
    """
    permitted = names if allowed is None else allowed
    return Restricted(
        kept=tuple(name for name in names if name in permitted),
        removed=tuple(Removed(name, NOT_PERMITTED) for name in names if name not in permitted),
    )


@dataclass(frozen=True, slots=True)
class Entry:
    """The entry by which a role's rights at a type are decided.

    Args:
        type: the type that the entry stands at, the asked one or one above it.
        attributes: what the role may read, or write.
    """

    type: str
    attributes: frozenset[str]


class AttributePolicy:
    """The read-write policy by attribute (paper 002, section 4.2).

    A role's entry for a type also holds for its sub-types; a nearer one wins. Several
    roles add up. Where no entry of any of the roles speaks of the type there is no rule.

    Args:
        types: the known types.
        read: what roles may read.
        write: what roles may write.

    Raises:
        InputError: `unknown` for a type, or an attribute that neither the type nor one
            below it has; `where` names the entry.
    """

    def __init__(
        self,
        types: EventTypes,
        *,
        read: Entries = MappingProxyType({}),
        write: Entries = MappingProxyType({}),
    ) -> None:
        self.types: Final = types
        self._visible: dict[str, frozenset[str]] = {}
        self._entries: dict[Direction, dict[str, dict[str, frozenset[str]]]] = {
            "read": self._checked("read", read),
            "write": self._checked("write", write),
        }

    @classmethod
    def from_json(cls, obj: object, types: EventTypes, *, where: str = "policy") -> AttributePolicy:
        """Read `{"read": {role: {type: [attributes]}}, "write": {...}}`; either may miss.

        Raises:
            InputError: `invalid` for another shape, else as the class; `where` names
                the place.
        """
        fields = as_object(obj, where, required=(), optional=("read", "write"))
        entries = {
            side: {
                role: {
                    name: as_texts(listed, at(at(at(where, side), role), name))
                    for name, listed in as_object(of_role, at(at(where, side), role)).items()
                }
                for role, of_role in as_object(fields.get(side, {}), at(where, side)).items()
            }
            for side in ("read", "write")
        }
        return cls(types, read=entries["read"], write=entries["write"])

    def entries(
        self, direction: Direction, roles: Iterable[str], type_name: str
    ) -> dict[str, Entry]:
        """Return the entry that decides for each role, roles without one left out.

        Args:
            direction: `read` or `write`.
            roles: the active roles; one that the policy does not name has no entry.
            type_name: the event's type.

        Raises:
            InputError: `unknown` for the type.
        """
        line = (type_name, *self.types.ancestors(type_name))
        found: dict[str, Entry] = {}
        for role in dict.fromkeys(roles):
            own = self._entries[direction].get(role, {})
            nearest = next((name for name in line if name in own), None)
            if nearest is not None:
                found[role] = Entry(nearest, own[nearest])
        return found

    def allowed(
        self, direction: Direction, roles: Iterable[str], type_name: str
    ) -> frozenset[str] | None:
        """Return what the roles together may read or write; None where nothing speaks of it.

        Raises:
            InputError: `unknown` for the type.
        """
        found = self.entries(direction, roles, type_name)
        if not found:
            return None
        return frozenset[str]().union(*(entry.attributes for entry in found.values()))

    def restrict(
        self, direction: Direction, roles: Sequence[str], type_name: str, names: Sequence[str]
    ) -> Restricted:
        """Narrow attributes of a publication (`write`) or a subscription (`read`).

        Args:
            direction: `read` or `write`.
            roles: the active roles.
            type_name: the event type.
            names: the attributes, in order.

        Returns:
            Kept and removed in the given order, each removed one with its reason.

        Raises:
            InputError: `unknown` for the type or an attribute that it does not have.
        """
        for name in names:
            self.types.attribute(type_name, name)
        found = self.entries(direction, roles, type_name)
        plain = restrict(names, self.allowed(direction, roles, type_name))
        detail = _reason(direction, dict.fromkeys(roles), found)
        return Restricted(
            plain.kept, tuple(Removed(one.attribute, one.reason, detail) for one in plain.removed)
        )

    def _checked(
        self, direction: Direction, entries: Entries
    ) -> dict[str, dict[str, frozenset[str]]]:
        return {
            role: {
                name: self._entry(name, listed, at(at(direction, role), name))
                for name, listed in of_role.items()
            }
            for role, of_role in entries.items()
        }

    def _entry(self, type_name: str, names: Collection[str], where: str) -> frozenset[str]:
        if type_name not in self._visible:
            with placed(where):
                below = self.types.subtree(type_name)
            # The entry holds for sub-types too, so it may name what only they have
            own = [*self.types.attributes(type_name)]
            own += [spec for name in below for spec in self.types.spec(name).attributes]
            self._visible[type_name] = frozenset(spec.name for spec in own)
        known = self._visible[type_name]
        for name in names:
            if name not in known:
                raise unknown(f"attribute of `{type_name}`", name, known, where=where)
        return frozenset(names)


def _reason(direction: Direction, roles: Iterable[str], found: Mapping[str, Entry]) -> str:
    """Say who was asked and which entries decided."""
    told = [
        f"the entry of {shown(role)} at {shown(found[role].type)} does not name it"
        if role in found
        else f"{shown(role)} has no entry"
        for role in roles
    ]
    return f"no role lets it be {'read' if direction == 'read' else 'written'}: " + "; ".join(told)
