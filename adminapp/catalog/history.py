"""How two versions of an event type differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from adminapp.catalog.models import EventType, EventTypeVersion
from adminapp.core.errors import Invalid


@dataclass(frozen=True)
class Change:
    """One field that differs.

    Args:
        pointer: JSON pointer, attributes by name (`/attributes/tail/keys`).
        before: what it was, None where it was not there.
        after: what it is, None where it is not there.
    """

    pointer: str
    before: Any
    after: Any


def difference(event_type: EventType, older: int, newer: int) -> list[Change]:
    """What changed from one kept version to another.

    Raises:
        Invalid: one of them was never kept.
    """
    kept = dict(
        EventTypeVersion.objects.filter(
            event_type=event_type, number__in=(older, newer)
        ).values_list("number", "document")
    )
    for name, number in (("from", older), ("to", newer)):
        if number not in kept:
            raise Invalid.at(f"/{name}", f"this event type has no version {number}", "unknown")
    return list(between(kept[older], kept[newer]))


def between(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    """The fields in which two documents of types differ."""
    for field in [*before, *(name for name in after if name not in before)]:
        if field != "attributes" and before.get(field) != after.get(field):
            yield Change(f"/{field}", before.get(field), after.get(field))
    was = {item["name"]: item for item in before["attributes"]}
    now = {item["name"]: item for item in after["attributes"]}
    for name in [*was, *(name for name in now if name not in was)]:
        yield from _attribute(name, was.get(name), now.get(name))
    kept = [name for name in was if name in now]
    if kept != [name for name in now if name in was]:
        yield Change("/attributes", list(was), list(now))


def _attribute(
    name: str, was: Mapping[str, Any] | None, now: Mapping[str, Any] | None
) -> Iterator[Change]:
    pointer = f"/attributes/{name}"
    if was is None or now is None:
        yield Change(pointer, was, now)
        return
    for field in [*was, *(each for each in now if each not in was)]:
        if was.get(field) != now.get(field):
            yield Change(f"{pointer}/{field}", was.get(field), now.get(field))
