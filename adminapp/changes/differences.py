"""How two documents differ, place by place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

MISSING = object()


@dataclass(frozen=True)
class Difference:
    """One place where two documents differ.

    Args:
        path: JSON pointer; entries of a list that have names go by them.
        before: what stood there, None when nothing did.
        after: what stands there now.
    """

    path: str
    before: Any
    after: Any

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def differences(before: Any, after: Any) -> list[Difference]:
    """Every place, in the order of the documents; none when they are equal."""
    return list(_walk(before, after, ""))


def _walk(before: Any, after: Any, path: str) -> Iterator[Difference]:
    if before == after and type(before) is type(after):
        return
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _fields(before, after, path)
    elif _named(before) and _named(after):
        yield from _fields(_by_name(before), _by_name(after), path)
    else:
        yield Difference(path, before, after)


def _fields(before: dict[str, Any], after: dict[str, Any], path: str) -> Iterator[Difference]:
    for name in dict.fromkeys((*before, *after)):
        below = f"{path}/{_escaped(str(name))}"
        if name not in after:
            yield Difference(below, before[name], None)
        elif name not in before:
            yield Difference(below, None, after[name])
        else:
            yield from _walk(before[name], after[name], below)


def _named(value: Any) -> bool:
    return (
        isinstance(value, list)
        and all(isinstance(item, dict) and isinstance(item.get("name"), str) for item in value)
        and len({item["name"] for item in value}) == len(value)
    )


def _by_name(items: list[dict[str, Any]]) -> dict[str, Any]:
    return {item["name"]: item for item in items}


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
