"""The attributes that an event type itself declares, as whoever changes it says them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from adminapp.catalog import mapping, selectors
from adminapp.catalog.models import Attribute, AttributeKey, EventType
from adminapp.core import versions
from adminapp.core.errors import Invalid, Problem
from policyengine.attributes import unknown
from policyengine.errors import DecodeError
from policyengine.privacy import Protection

FIELDS = frozenset({"name", "type", "keys", "pia_class", "pia_reason", "protection"})


def replace(row: EventType, items: list[Mapping[str, Any]]) -> None:
    """Make `items` the attributes that a type declares; fields left out stay as they are.

    Raises:
        Invalid: with a pointer into `/attributes`.
    """
    names = [item.get("name") for item in items]
    doubled = sorted({str(name) for name in names if names.count(name) > 1})
    if doubled:
        raise Invalid.at("/attributes", f"declared twice: {', '.join(doubled)}")
    keys = {each.row.name: each.row for each in selectors.effective_attribute_keys(row.domain)}
    above = selectors.inherited(row)
    held = {attribute.name: attribute for attribute in Attribute.objects.filter(event_type=row)}
    for index, item in enumerate(items):
        try:
            name = str(item.get("name", ""))
            attribute = held.pop(name, None) or _new(row, name, above.get(name))
            _set(attribute, index, item, keys)
        except Invalid as error:
            raise error.below(f"/attributes/{index}") from error
    Attribute.objects.filter(pk__in=[attribute.pk for attribute in held.values()]).delete()
    row.__dict__.get("_prefetched_objects_cache", {}).pop("attributes", None)


def _new(row: EventType, name: str, inherited: Attribute | None) -> Attribute:
    attribute = Attribute(event_type=row, name=name)
    if inherited is not None:  # a repetition removes keys; its class stays what it is above
        attribute.pia_class = inherited.pia_class
        attribute.pia_reason = inherited.pia_reason
    return attribute


def _set(
    attribute: Attribute, index: int, item: Mapping[str, Any], keys: Mapping[str, AttributeKey]
) -> None:
    strange = sorted(set(item) - FIELDS)
    if strange:
        raise Invalid(Problem(f"/{name}", f"`{name}` cannot be set", "unknown") for name in strange)
    attribute.type = mapping.attribute_type(item.get("type"), "/type").to_json()
    attribute.order = index
    attribute.pia_class = item.get("pia_class", attribute.pia_class)
    attribute.pia_reason = item.get("pia_reason", attribute.pia_reason)
    if "protection" in item:
        attribute.protection, attribute.sealed = protection(item["protection"])
    if attribute.pk is None:
        versions.create(attribute)
    else:
        versions.save(attribute)
    if "keys" in item:
        attribute.keys.set(_keys(item["keys"], keys))


def protection(wanted: Any) -> tuple[str, bool]:
    """Kind and seal of what an attribute says of its protection; "" leaves it to profile and keys.

    Raises:
        Invalid: at `/protection`, it is none.
    """
    if wanted is None:
        return "", False
    try:
        chosen = Protection.from_json(wanted)
    except DecodeError as error:
        raise Invalid.at("/protection", str(error)) from error
    return chosen.kind, chosen.sealed


def _keys(names: Iterable[str], keys: Mapping[str, AttributeKey]) -> list[AttributeKey]:
    problems = []
    for name in names:
        if name not in keys:
            suggested = unknown("attribute key", str(name), keys).suggestion
            problems.append(
                Problem(
                    "/keys",
                    f"`{name}` is no attribute key of this domain",
                    "unknown",
                    suggestion=suggested,
                )
            )
    if problems:
        raise Invalid(problems)
    return [keys[name] for name in names]
