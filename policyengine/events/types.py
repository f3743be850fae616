"""Event types: a tree of names, each with typed attributes under attribute keys.

A sub-type inherits the attributes of its ancestors. It repeats one only to remove
keys from it, so that access becomes more restrictive down the tree (Bacon et al.,
section 3, Fig. 2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from policyengine.attributes import (
    AttributeType,
    Value,
    check_name,
    check_values,
    shown,
    unknown,
)
from policyengine.errors import DecodeError, InputError

_FIELDS = {"name", "type", "keys", "pia"}
BLIND = ("searchable", "order-preserving")
"""How clients hide attributes from agents, which match on what they cannot read."""


@dataclass(frozen=True, slots=True)
class AttributeSpec:
    """One attribute of an event type.

    Args:
        name: its name.
        type: what values it may have.
        keys: names of the attribute keys that it is encrypted under, once each;
            none is public.
        pia: its class in the privacy assessment (`policyengine.privacy.CLASSES`).
        blind: how clients hide it from every agent, one of `BLIND`; empty where it is clear or
            encrypted under its keys.
        sealed: of what clients hide, whether the value travels too, encrypted for those whom a
            policy lets read it.
    """

    name: str
    type: AttributeType
    keys: tuple[str, ...] = ()
    pia: str = "non-confidential"
    blind: str = ""
    sealed: bool = False

    def to_json(self) -> dict[str, object]:
        """Write every field by name; the protection only where clients hide the attribute."""
        hidden = {"protection": {"kind": self.blind, "sealed": self.sealed}} if self.blind else {}
        return {
            "name": self.name,
            "type": self.type.to_json(),
            "keys": list(self.keys),
            "pia": self.pia,
            **hidden,
        }

    @classmethod
    def from_json(cls, obj: object) -> AttributeSpec:
        """Read what `to_json` wrote, strictly.

        Raises:
            DecodeError: a field is missing, unknown or of the wrong type.
        """
        if not isinstance(obj, Mapping) or set(obj) - {"protection"} != _FIELDS:
            raise DecodeError("an attribute has exactly the fields of its version")
        blind, sealed = _protection(obj["protection"]) if "protection" in obj else ("", False)
        name, keys, pia = obj["name"], obj["keys"], obj["pia"]
        if not isinstance(name, str) or not isinstance(pia, str) or not _is_texts(keys):
            raise DecodeError("a field of an attribute has the wrong type")
        try:
            kind = AttributeType.from_json(obj["type"])
            return cls(name, kind, tuple(keys), pia, blind, sealed)
        except InputError as error:
            raise DecodeError(error.message) from error


@dataclass(frozen=True, slots=True)
class TypeSpec:
    """One event type as declared: its own attributes only.

    Args:
        name: its name.
        parent: name of the type above it, or None.
        attributes: what it adds, and inherited ones from which it removes keys.
    """

    name: str
    parent: str | None
    attributes: tuple[AttributeSpec, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Write every field by name."""
        return {
            "name": self.name,
            "parent": self.parent,
            "attributes": [attribute.to_json() for attribute in self.attributes],
        }

    @classmethod
    def from_json(cls, obj: object) -> TypeSpec:
        """Read what `to_json` wrote, strictly.

        Raises:
            DecodeError: a field is missing, unknown or of the wrong type.
        """
        if not isinstance(obj, Mapping) or set(obj) != {"name", "parent", "attributes"}:
            raise DecodeError("an event type has exactly the fields of its version")
        name, parent, attributes = obj["name"], obj["parent"], obj["attributes"]
        if not isinstance(name, str) or not isinstance(parent, str | None):
            raise DecodeError("an event type and its parent have names")
        if not isinstance(attributes, list):
            raise DecodeError("an event type has a list of attributes")
        return cls(name, parent, tuple(AttributeSpec.from_json(item) for item in attributes))


class EventTypes:
    """A checked tree of event types.

    Args:
        specs: the types, in any order.

    Raises:
        InputError: `invalid` for doubles, cycles and attributes that are repeated
            for more than removing keys; `unknown` for a parent that does not exist.
    """

    def __init__(self, specs: Iterable[TypeSpec]) -> None:
        self._specs: dict[str, TypeSpec] = {}
        for spec in specs:
            if spec.name in self._specs:
                raise InputError(
                    "invalid", f"event type {shown(spec.name)} is declared twice", where=spec.name
                )
            self._specs[spec.name] = spec
        self._ancestors = {name: self._line(name) for name in self._specs}
        self._above = {name: frozenset(line) for name, line in self._ancestors.items()}
        self._attributes: dict[str, dict[str, AttributeSpec]] = {}
        for name in sorted(self._specs, key=lambda name: len(self._ancestors[name])):
            self._attributes[name] = self._resolve(self._specs[name])
        self._schemas = {
            name: {spec.name: spec.type for spec in attributes.values()}
            for name, attributes in self._attributes.items()
        }

    @property
    def names(self) -> tuple[str, ...]:
        """All types, sorted."""
        return tuple(sorted(self._specs))

    def spec(self, name: str) -> TypeSpec:
        """Return a type as declared.

        Raises:
            InputError: `unknown`, with the nearest name.
        """
        self._check(name)
        return self._specs[name]

    def attributes(self, name: str) -> tuple[AttributeSpec, ...]:
        """Return a type's attributes, inherited ones first, with the keys that are left.

        Raises:
            InputError: `unknown`, with the nearest name.
        """
        self._check(name)
        return tuple(self._attributes[name].values())

    def attribute(self, name: str, attribute: str) -> AttributeSpec:
        """Return one attribute of a type.

        Raises:
            InputError: `unknown`, with the nearest name, for the type or the attribute.
        """
        self._check(name)
        found = self._attributes[name].get(attribute)
        if found is None:
            raise unknown(f"attribute of `{name}`", attribute, self._attributes[name])
        return found

    def schema(self, name: str) -> dict[str, AttributeType]:
        """Return a type's attributes, name to type.

        Raises:
            InputError: `unknown`, with the nearest name.
        """
        self._check(name)
        return dict(self._schemas[name])

    def ancestors(self, name: str) -> tuple[str, ...]:
        """Return the types above a type, nearest first, without itself.

        Raises:
            InputError: `unknown`, with the nearest name.
        """
        self._check(name)
        return self._ancestors[name]

    def is_a(self, name: str, ancestor: str) -> bool:
        """Tell whether a type is another one or stands below it.

        Raises:
            InputError: `unknown`, with the nearest name, for either.
        """
        self._check(name)
        self._check(ancestor)
        return name == ancestor or ancestor in self._above[name]

    def subtree(self, name: str) -> tuple[str, ...]:
        """Return a type and all below it, sorted.

        Raises:
            InputError: `unknown`, with the nearest name.
        """
        self._check(name)
        return tuple(other for other in self.names if other == name or name in self._above[other])

    def validate(self, name: str, values: Mapping[str, object]) -> dict[str, Value]:
        """Check the values of an event; attributes may be absent.

        Returns:
            The values in their one form.

        Raises:
            InputError: `unknown` for the type or an attribute, `invalid` or
                `too-large` for a value.
        """
        self._check(name)
        return check_values(values, self._schemas[name])

    def _check(self, name: str) -> None:
        if name not in self._specs:
            raise unknown("event type", name, self._specs)

    def _line(self, name: str) -> tuple[str, ...]:
        line: dict[str, None] = {}
        parent = self._specs[name].parent
        while parent is not None:
            if parent not in self._specs:
                raise unknown("event type", parent, self._specs, where=name)
            if parent == name or parent in line:
                raise InputError(
                    "invalid", f"event type {shown(name)} stands in a cycle of parents", where=name
                )
            line[parent] = None
            parent = self._specs[parent].parent
        return tuple(line)

    def _resolve(self, spec: TypeSpec) -> dict[str, AttributeSpec]:
        inherited = self._attributes[spec.parent] if spec.parent is not None else {}
        resolved = dict(inherited)
        seen: set[str] = set()
        for own in spec.attributes:
            check_name(own.name)
            if own.name in seen:
                raise _refused(spec, own, "is declared twice")
            seen.add(own.name)
            if own.name in inherited:
                _check_narrower(spec, inherited[own.name], own)
            elif len(set(own.keys)) != len(own.keys):
                raise _refused(spec, own, "names a key twice")
            resolved[own.name] = own
        return resolved


def _check_narrower(spec: TypeSpec, inherited: AttributeSpec, own: AttributeSpec) -> None:
    hidden, before = (own.blind, own.sealed), (inherited.blind, inherited.sealed)
    if own.type != inherited.type or own.pia != inherited.pia or hidden != before:
        raise _refused(spec, own, "is inherited; a sub-type changes nothing but its keys")
    added = sorted(set(own.keys) - set(inherited.keys))
    if added:
        raise _refused(
            spec, own, f"gets the key {shown(added[0])}; a sub-type may only remove keys"
        )
    # INVARIANT: access only narrows down the tree. Without any key it would be public.
    if inherited.keys and not own.keys:
        raise _refused(spec, own, "loses its last key, which would make it public")


def _refused(spec: TypeSpec, own: AttributeSpec, problem: str) -> InputError:
    return InputError(
        "invalid",
        f"attribute {shown(own.name)} of {shown(spec.name)} {problem}",
        where=f"{spec.name}.{own.name}",
    )


def _protection(obj: object) -> tuple[str, bool]:
    if not isinstance(obj, Mapping) or set(obj) != {"kind", "sealed"}:
        raise DecodeError("a protection has a kind and says whether values are sealed")
    kind, sealed = obj["kind"], obj["sealed"]
    if kind not in BLIND or not isinstance(sealed, bool):
        raise DecodeError("the protection is none that clients apply")
    return kind, sealed


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
