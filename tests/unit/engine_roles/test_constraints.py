"""Environmental constraints: when they are met, and why not."""

from __future__ import annotations

from typing import Any

import pytest

from policyengine.errors import InputError
from policyengine.roles import read_constraint

ENV: dict[str, Any] = {
    "env.hour": 10, "env.temp": 9.5, "env.on": True, "env.site": "north", "env.badge": 2**53 + 1,
}  # fmt: skip
XY = frozenset("xy")


@pytest.mark.parametrize(
    ("text", "bindings"),
    [
        ("env.hour >= 9 && env.hour < 17", {}),
        ("env.hour == 10.0", {}),
        ("env.temp < 10", {}),
        ("env.on", {}),
        ("has(env.site)", {}),
        ("true", {}),
        ("!(env.site in [])", {}),
        ("env.site.startsWith('no') && env.site endsWith 'th'", {}),
        ("x != 7", {"x": 8}),
        ("env.hour == x", {"x": 10}),
        ("env.hour == x && x == y", {"x": 10, "y": 10.0}),
        ("env.site == x", {"x": "north"}),
        ("x in ['north', 'south']", {"x": "north"}),
        ("atLeast(1, [env.on, x == 3])", {"x": 4}),
        ("env.badge == 9007199254740993", {}),
        ("env.badge == x", {"x": 2**53 + 1}),
        ("9 < env.hour", {}),
    ],
)
def test_met(text: str, bindings: dict[str, Any]) -> None:
    assert read_constraint(text, XY).problem(ENV, bindings) is None


@pytest.mark.parametrize(
    ("text", "bindings", "why"),
    [
        ("env.hour >= 17", {}, "`env.hour` is `10`"),
        ("false", {}, "it never is"),
        ("env.never == 1", {}, "`env.never` was never set"),
        ("!(env.never)", {}, "`env.never` was never set"),
        ("!has(env.never)", {}, "`env.never` was never set"),
        ("env.hour == 10 || env.never == 1", {}, "`env.never` was never set"),
        ("env.site >= 9", {}, '`env.site` is `"north"`, and the constraint asks for a number'),
        ("!(env.hour == 'x')", {}, "`env.hour` is `10`, and the constraint asks for text"),
        ("env.hour", {}, "asks for true or false"),
        ("env.hour == x", {"x": "10"}, "it compares values of two kinds"),
        ("env.badge == 9007199254740992", {}, "`env.badge` is `9007199254740993`"),
        ("x != 7", {"x": 7}, "`x` is `7`"),
        ("env.hour == x && x == 10.5", {"x": 10}, "`env.hour` is `10`, `x` is `10`"),
    ],
)
def test_not_met(text: str, bindings: dict[str, Any], why: str) -> None:
    problem = read_constraint(text, XY).problem(ENV, bindings)
    assert problem is not None
    assert why in problem


def test_names_are_sorted_by_what_they_are() -> None:
    found = read_constraint("env.b == x && env.a", XY)
    assert (found.names, found.variables) == (("env.a", "env.b"), ("x",))


@pytest.mark.parametrize(
    ("text", "kind", "at", "where"),
    [
        ("", "syntax", 0, None),
        ("env.hour >", "syntax", 10, None),
        ("hour >= 9", "unknown", 0, "hour"),
        ("env.on && q == 3", "unknown", 10, "q"),
        ("env.hour == q", "unknown", 12, "q"),
        ("env.hour == 1 && env.hour == 'x'", "type", 12, "env.hour"),
        ("env.site < 'x'", "type", 11, "env.site"),
        ("!(env.a == env.b)", "unsupported", 11, "env.b"),
        ("env.a != x", "unsupported", 9, "x"),
        ("atLeast(3, [env.a])", "invalid", 8, None),
        ("(" * 70 + "env.a" + ")" * 70, "too-large", 65, None),
        (f"env.{'a' * 300}", "invalid", None, "env." + "a" * 196),
    ],
)
def test_what_cannot_be_read(text: str, kind: str, at: int | None, where: str | None) -> None:
    with pytest.raises(InputError) as caught:
        read_constraint(text, XY)
    assert (caught.value.kind, caught.value.at, caught.value.where) == (kind, at, where)


def test_the_name_that_was_meant_is_suggested() -> None:
    with pytest.raises(InputError) as caught:
        read_constraint("hour >= 9")
    assert caught.value.suggestion == "env.hour"
