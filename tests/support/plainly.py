"""Conditions in two forms that are drawn together: the policy language's text, and Python.

Who judges by the Python form shares nothing with the engine: neither its parser nor its
evaluation, normal forms, tokens or encodings.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Facts = Mapping[str, Any]
_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt,
    "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@dataclass(frozen=True)
class Said:
    """One condition.

    Args:
        text: in the policy language.
        holds: of facts, name -> value.
    """

    text: str
    holds: Callable[[Facts], bool]

    def __and__(self, other: Said) -> Said:
        return Said(f"({self.text}) && ({other.text})", lambda f: self.holds(f) and other.holds(f))

    def __or__(self, other: Said) -> Said:
        return Said(f"({self.text}) || ({other.text})", lambda f: self.holds(f) or other.holds(f))

    def __invert__(self) -> Said:
        return Said(f"!({self.text})", lambda f: not self.holds(f))


ALWAYS = Said("", lambda _: True)
"""No condition."""


def compare(name: str, operation: str, value: str | int) -> Said:
    """A comparison; false of a fact that is not there."""
    written = f'"{value}"' if isinstance(value, str) else str(value)
    test = _OPERATORS[operation]
    return Said(f"{name} {operation} {written}", lambda f: name in f and test(f[name], value))


def among(name: str, values: tuple[str | int, ...]) -> Said:
    """Whether a fact is one of some values."""
    written = ", ".join(f'"{one}"' if isinstance(one, str) else str(one) for one in values)
    return Said(f"{name} in [{written}]", lambda f: name in f and f[name] in values)


def there(name: str) -> Said:
    """Whether there is such a fact."""
    return Said(f"has({name})", lambda f: name in f)


def same(one: str, other: str) -> Said:
    """Whether two facts are there and equal."""
    return Said(f"{one} == {other}", lambda f: one in f and other in f and f[one] == f[other])
