"""Which literals of one attribute can hold together.

Sound, not complete: "cannot" is always right, "can" may be wrong. A conjunction
that can never hold is left out of a normal form, so it costs no encoding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from policyengine.attributes.literals import Literal, holds_for
from policyengine.attributes.types import NUMERIC, AttributeType, Value


def feasible(literals: Sequence[Literal], declared: AttributeType) -> bool:
    """Tell whether some state of one attribute may satisfy all literals.

    Args:
        literals: tests of the same attribute, at least one.
        declared: its type.
    """
    absent = [literal.op == "!has" for literal in literals]
    if any(absent):
        return all(absent)
    candidates = _candidates(literals, declared)
    if candidates is not None:
        return any(
            declared.admits(value) and all(holds_for(literal, value) for literal in literals)
            for value in candidates
        )
    if declared.kind in NUMERIC:
        return _interval_feasible(literals, declared)
    return _texts_feasible(literals)


def _candidates(literals: Iterable[Literal], declared: AttributeType) -> Iterable[Value] | None:
    """Return every value worth trying where they are few, else None."""
    for literal in literals:
        if literal.op == "==":
            return (cast(Value, literal.value),)
        if literal.op == "in":
            return cast("tuple[Value, ...]", literal.value)
    if declared.kind == "bool":
        return (False, True)
    return declared.values if declared.kind == "enum" else None


def _interval_feasible(literals: Iterable[Literal], declared: AttributeType) -> bool:
    low, high = declared.minimum, declared.maximum
    low_open = high_open = False
    for literal in literals:
        bound: Any = literal.value
        if literal.op in (">", ">=") and (low is None or bound >= low):
            low_open = literal.op == ">" or (low_open and bound == low)
            low = bound
        elif literal.op in ("<", "<=") and (high is None or bound <= high):
            high_open = literal.op == "<" or (high_open and bound == high)
            high = bound
    if low is None or high is None:
        return True
    if declared.kind == "int":  # whole numbers: an open end is the next number
        return low + low_open <= high - high_open
    return low < high or (low == high and not low_open and not high_open)


def _texts_feasible(literals: Sequence[Literal]) -> bool:
    wanted = {op: _parts(literals, op) for op in ("startsWith", "endsWith")}
    for prefix in wanted["startsWith"]:
        if any(not _starts_agree(prefix, other) for other in wanted["startsWith"]):
            return False
        if any(prefix.startswith(other) for other in _parts(literals, "!startsWith")):
            return False
    for suffix in wanted["endsWith"]:
        if any(not _starts_agree(suffix[::-1], other[::-1]) for other in wanted["endsWith"]):
            return False
        if any(suffix.endswith(other) for other in _parts(literals, "!endsWith")):
            return False
    return True


def _parts(literals: Iterable[Literal], op: str) -> list[str]:
    return [cast(str, literal.value) for literal in literals if literal.op == op]


def _starts_agree(first: str, second: str) -> bool:
    return first.startswith(second) or second.startswith(first)
