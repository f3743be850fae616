"""Lines made wrong in every place."""

from __future__ import annotations

import copy
import random
from typing import Any

ODD: list[Any] = [
    None, True, False, 0, 1, -1, 64, 10**18, 10**99, 10**400, -(10**400), 0.5, -0.0, 1e308, 5e-324,
    "", "a", "x" * 300, "\ud800", "a\udfffb", "\x00", "🚔", "==", "true", "has(", "(" * 80, "a == ",
    [], [[]], [None], [0], ["a"], ["a", "a"], [{}], {}, {"": None}, {"a": {}}, {"\ud800": 1},
    {"type": "int"}, {"type": ["int"]}, {"type": "enum", "values": [1]}, [[[[[[[]]]]]]],
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()):
    """Yield the path of everything inside a value."""
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


def spoiled(rng: random.Random, question: dict[str, Any]) -> dict[str, Any]:
    """Return a question with something wrong at a random place."""
    wrong = copy.deepcopy(question)
    for _ in range(rng.choice([1, 1, 1, 2])):
        paths = [path for path in places(wrong) if path not in (("id",), ("op",))]
        if not paths:
            return wrong
        *above, last = rng.choice(paths)
        holder: Any = wrong
        for key in above:
            holder = holder[key]
        _spoil(rng, holder, last)
    return wrong


def _spoil(rng: random.Random, holder: Any, last: Any) -> None:
    odd = copy.deepcopy(rng.choice(ODD))
    way = rng.choice(["replace", "replace", "replace", "remove", "add", "rename", "cut"])
    if way == "remove":
        del holder[last]
    elif way == "add" and isinstance(holder, dict):
        holder[rng.choice(["extra", "", "\ud800", "in", "seed", "type", "x" * 300])] = odd
    elif way == "add":
        holder.insert(last, odd)
    elif way == "rename" and isinstance(holder, dict):
        holder[rng.choice(["other", "", "\ud800"])] = holder.pop(last)
    elif way == "cut" and isinstance(holder[last], str):
        text = holder[last]
        at = rng.randint(0, len(text))
        holder[last] = (
            text[:at]
            + rng.choice(["", "(", '"', "\\", "!", "\ud800", "é", "9" * 200])
            + (text[at + rng.randint(0, 2) :])
        )
    else:
        holder[last] = odd
