"""Questions about event types in JSON, as the conformance command asks them."""

from __future__ import annotations

from typing import Final

from policyengine.attributes import AttributeType
from policyengine.errors import InputError
from policyengine.events.coverage import Subscription, covers
from policyengine.events.reading import as_object, as_text, as_texts, at, bounded, invalid, placed
from policyengine.events.restriction import AttributePolicy, Direction
from policyengine.events.types import AttributeSpec, EventTypes, TypeSpec

MAX_TYPES: Final = 1024
"""Most event types of a document."""
MAX_ATTRIBUTES: Final = 4096
"""Most attributes that all the types of a document declare together."""


def types_from_json(obj: object, *, where: str = "types") -> EventTypes:
    """Read `{name: {"parent": name or null, "attributes": {name: {"type", ..., "keys"}}}}`.

    `parent` and `attributes` may be left out. No keys is public; a sub-type repeats an
    attribute only to remove keys.

    Args:
        obj: the JSON object.
        where: its name, for errors.

    Raises:
        InputError: `invalid`, `unknown`, or `too-large` beyond `MAX_TYPES` and
            `MAX_ATTRIBUTES`; `where` names the place.
    """
    specs: list[TypeSpec] = []
    named = as_object(obj, where)
    bounded(len(named), MAX_TYPES, where)
    left = MAX_ATTRIBUTES
    for name, item in named.items():
        place = at(where, name)
        fields = as_object(item, place, required=(), optional=("parent", "attributes"))
        parent = fields.get("parent")
        if not isinstance(parent, str | None):
            raise invalid(at(place, "parent"), "is the name of a type, or null")
        declared = as_object(fields.get("attributes", {}), at(place, "attributes"))
        bounded(len(declared), left, at(place, "attributes"))
        left -= len(declared)
        attributes = tuple(
            _attribute(own, data, at(at(place, "attributes"), own))
            for own, data in declared.items()
        )
        specs.append(TypeSpec(name, parent, attributes))
    try:
        return EventTypes(specs)
    except InputError as error:
        found = error.where or ""
        raise InputError(
            error.kind, error.message, where=at(where, found), suggestion=error.suggestion
        ) from error


def covers_json(types: object, first: object, second: object) -> bool:
    """Tell whether the first subscription covers the second.

    Args:
        types: event types, as `types_from_json` reads them.
        first: `{"type", "filters": [{"expression", "keys"}]}`.
        second: the same.

    Raises:
        InputError: what is wrong with one of them; `where` names the place, `at` the
            position in an expression.
    """
    tree = types_from_json(types)
    general = Subscription.from_json(first, tree, where="first")
    return covers(tree, general, Subscription.from_json(second, tree, where="second"))


def restrict_json(
    types: object,
    policy: object,
    roles: object,
    *,
    publication: object = None,
    subscription: object = None,
) -> dict[str, object]:
    """Narrow a publication to what may be written, or a subscription to what may be read.

    Args:
        types: event types, as `types_from_json` reads them.
        policy: `{"read": {role: {type: [attributes]}}, "write": {...}}`.
        roles: the active roles, a list.
        publication: `{"type", "values"}`, or None.
        subscription: `{"type", "attributes"}`, or None.

    Returns:
        `{"kept": [name], "removed": [{"attribute", "reason"}]}`, in the given order.

    Raises:
        InputError: what is wrong with one of them, or not exactly one of publication and
            subscription; `where` names the place.
    """
    tree = types_from_json(types)
    rules = AttributePolicy.from_json(policy, tree)
    active = as_texts(roles, "roles")
    if (publication is None) == (subscription is None):
        raise InputError(
            "invalid",
            "exactly one of `publication` and `subscription` is given",
            where="publication",
        )
    side: Direction = "read" if publication is None else "write"
    place = "subscription" if publication is None else "publication"
    content = "attributes" if publication is None else "values"
    asked = subscription if publication is None else publication
    fields = as_object(asked, place, required=("type", content))
    name = as_text(fields["type"], at(place, "type"))
    with placed(at(place, "type")):
        tree.spec(name)
    with placed(at(place, content)):
        names = (
            as_texts(fields[content], at(place, content))
            if publication is None
            else tuple(tree.validate(name, as_object(fields[content], at(place, content))))
        )
        found = rules.restrict(side, active, name, names)
    return {
        "kept": list(found.kept),
        "removed": [{"attribute": one.attribute, "reason": one.detail} for one in found.removed],
    }


def _attribute(name: str, obj: object, where: str) -> AttributeSpec:
    fields = dict(as_object(obj, where))
    keys = as_texts(fields.pop("keys", []), at(where, "keys"))
    pia = as_text(fields.pop("pia", "non-confidential"), at(where, "pia"))
    with placed(where):
        return AttributeSpec(name, AttributeType.from_json(fields), keys, pia)
