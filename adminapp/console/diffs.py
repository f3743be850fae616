"""Two states of an object side by side, field by field; pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Change:
    """One field that differs; None where the object did not exist."""

    field: str
    before: str | None
    after: str | None


def between(before: Any, after: Any) -> list[Change]:
    """The fields in which two recorded states differ, in their own order.

    Args:
        before: a JSON object, or None when it was created.
        after: a JSON object, or None when it was deleted.
    """
    old, new = _fields(before), _fields(after)
    names = [*old, *(name for name in new if name not in old)]
    if before is None or after is None:
        # Of a whole object only what it says; what it leaves open is no change.
        names = [name for name in names if {**old, **new}[name] not in (None, "", [], {})]
    return [
        Change(_title(name), _text(old, name), _text(new, name))
        for name in names
        if _text(old, name) != _text(new, name)
    ]


def _fields(state: Any) -> Mapping[str, Any]:
    if state is None:
        return {}
    return state if isinstance(state, Mapping) else {"value": state}


def _text(state: Mapping[str, Any], name: str) -> str | None:
    if name not in state:
        return None
    value = state[name]
    if isinstance(value, str):
        return value
    if value is None:
        # A policy without a list of attributes permits every one of them.
        return "every one" if name == "attributes" else "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value) or "none"
    return json.dumps(value, ensure_ascii=False, sort_keys=True, indent=2)


def _title(name: str) -> str:
    return name.replace("_", " ").capitalize()
