"""The demo's second reading of policy expressions."""

from __future__ import annotations

import pytest

from tasks.local.demo.expressions import holds

VALUES = {"event.carrier": "UA", "event.delay": 130, "event.on": True, "subject.airline": "UA"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ('event.carrier == "UA"', True),
        ("event.carrier != 'UA'", False),
        ("event.delay > 120 && event.delay <= 130", True),
        ("event.delay < -5 || event.on", True),
        ("!event.on", False),
        ("!(event.carrier == 'AA')", True),
        ("event.carrier in ['AA', \"UA\"]", True),
        ("event.carrier in []", False),
        ("event.carrier == subject.airline", True),
        ("event.carrier.startsWith('U')", True),
        ('event.carrier endsWith "X"', False),
        ("has(event.delay) && !has(event.gate)", True),
        ("atLeast(2, [event.on, event.delay > 500, event.carrier == 'UA'])", True),
        ("atLeast(3, [event.on, event.delay > 500, event.carrier == 'UA'])", False),
        ("120 < event.delay", True),
        ("event.carrier == 'a && b || !c true'", False),
        ("event.on == true", True),
    ],
)
def test_what_an_expression_says(text: str, expected: bool) -> None:
    assert holds(text, VALUES) is expected


@pytest.mark.parametrize(
    "comparison",
    ["event.gate == 'A'", "event.gate != 'A'", "event.gate in ['A']", "event.gate.startsWith('A')"],
)
def test_a_comparison_on_an_absent_attribute_is_false_and_its_negation_true(
    comparison: str,
) -> None:
    assert holds(comparison, VALUES) is False
    assert holds(f"!({comparison})", VALUES) is True


@pytest.mark.parametrize("text", ["open('x')", "event.delay + 1", "[1]"])
def test_what_the_language_does_not_have_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not in the language"):
        holds(text, VALUES)
