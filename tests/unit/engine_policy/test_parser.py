"""Reading expressions: what they mean, and where they are wrong."""

from __future__ import annotations

import time

import pytest

from policyengine.attributes import (
    MAX_TEXT,
    And,
    AtLeast,
    AttributeType,
    Equal,
    Expression,
    Not,
    Or,
    Test,
    names,
    parse,
    to_text,
)
from policyengine.errors import InputError

SCHEMA = {
    "zone": AttributeType("string"),
    "level": AttributeType("int", 0, 1023),
    "on": AttributeType("bool"),
    "t": AttributeType("float", 0, 100, 0.5),
    "unit": AttributeType("enum", values=("a", "b")),
    "subject.consumer": AttributeType("string"),
    "event.consumer": AttributeType("string"),
    "event.level": AttributeType("int"),
    "has": AttributeType("bool"),
}
ON = Test("on", "==", True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("on", ON),
        ("(on)", ON),
        ("true", And(())),
        ("false", Or(())),
        ("!on", Not(ON)),
        ("!!on", Not(Not(ON))),
        ("on == false", Test("on", "==", False)),
        ('zone == "West"', Test("zone", "==", "West")),
        ("zone != 'W\"est'", Test("zone", "!=", 'W"est')),
        ("level<5", Test("level", "<", 5)),
        ("5 < level", Test("level", ">", 5)),
        ('"x" == zone', Test("zone", "==", "x")),
        ("level >= -5", Test("level", ">=", -5)),
        ("t == 5", Test("t", "==", 5.0)),
        ("t <= 1.5e1", Test("t", "<=", 15.0)),
        ('unit in ["a", "b"]', Test("unit", "in", ("a", "b"))),
        ("level in []", Test("level", "in", ())),
        ('zone.startsWith("W")', Test("zone", "startsWith", "W")),
        ('zone . endsWith ( "t" )', None),
        ('subject.consumer.endsWith("t")', Test("subject.consumer", "endsWith", "t")),
        ('zone endsWith "t"', Test("zone", "endsWith", "t")),
        ("has(zone)", Test("zone", "has")),
        ("has", Test("has", "==", True)),
        ("has && has(has)", And((Test("has", "==", True), Test("has", "has")))),
        ("on && on || on", Or((And((ON, ON)), ON))),
        ("on || on && !on", Or((ON, And((ON, Not(ON)))))),
        ("(on || on) && on", And((Or((ON, ON)), ON))),
        ("atLeast(1, [on, has(zone)])", AtLeast(1, (ON, Test("zone", "has")))),
        (r'zone == "a\"\\\n\t\u0041\U0001F600"', Test("zone", "==", 'a"\\\n\tA😀')),
        (r'zone == "\ud83d\ude00"', Test("zone", "==", "😀")),
        ("on\n\t&&\r on", And((ON, ON))),
    ],
)
def test_meaning(text: str, expected: Expression | None) -> None:
    if expected is None:
        with pytest.raises(InputError):
            parse(text, SCHEMA)
        return
    found = parse(text, SCHEMA)
    assert found == expected
    assert parse(to_text(found), SCHEMA) == expected


def test_joins_only_where_they_are_permitted() -> None:
    text = "subject.consumer == event.consumer"
    assert parse(text, SCHEMA, joins=True) == Equal("subject.consumer", "event.consumer")
    assert to_text(parse(text, SCHEMA, joins=True)) == text
    with pytest.raises(InputError) as caught:
        parse(text, SCHEMA)
    assert (caught.value.kind, caught.value.at) == ("unsupported", 20)


@pytest.mark.parametrize(
    ("text", "kind", "at", "suggestion"),
    [
        ("", "syntax", 0, None),
        ("on &&", "syntax", 5, None),
        ("(on", "syntax", 3, None),
        ("on)", "syntax", 2, None),
        ("on on", "syntax", 3, None),
        ("on and on", "syntax", 3, "&&"),
        ("on OR on", "syntax", 3, "||"),
        ("not on", "syntax", 4, "!"),
        ("level = 5", "syntax", 6, "=="),
        ("on & on", "syntax", 3, "&&"),
        ("on | on", "syntax", 3, "||"),
        ("level <> 5", "syntax", 7, "!="),
        ("on; on", "syntax", 2, None),
        ('zone == "West', "syntax", 8, '"'),
        ("zone == 'West", "syntax", 8, "'"),
        ('zone.startswith("W")', "syntax", 15, "startsWith"),
        ("atleast(1, [on])", "syntax", 7, "atLeast"),
        ("(on) (on)", "syntax", 5, None),
        ("!level == 5", "syntax", 7, None),
        ("atLeast(1, [])", "syntax", 12, None),
        (r'zone == "\q"', "syntax", 9, None),
        (r'zone == "ab\UFFFFFFFF"', "syntax", 11, None),
        (r'zone == "\ud83d"', "invalid", 9, None),
        ("atLeast(0, [on])", "invalid", 8, None),
        ("atLeast(2, [on])", "invalid", 8, None),
        ("atLeast(1.0, [on])", "invalid", 8, None),
        ("zome == 'x'", "unknown", 0, "zone"),
        ("on && has(levle)", "unknown", 10, "level"),
        ('unit == "c"', "unknown", 8, None),
        ('unit in ["a", "A"]', "unknown", 14, "a"),
        ('zone < "x"', "type", 0, None),
        ('on.startsWith("x")', "type", 0, None),
        ('unit.startsWith("a")', "type", 0, None),
        ("on < true", "type", 0, None),
        ("level", "type", 0, None),
        ("level == 5.5", "type", 9, None),
        ('level == "5"', "type", 9, None),
        ("level == true", "type", 9, None),
        ("zone == 5", "type", 8, None),
        ("t in [1, false]", "type", 9, None),
        ("zone == West", "syntax", 8, '"West"'),
        ("level == " + "9" * 200, "too-large", 9, None),
        ("t == " + "9" * 101, "too-large", 5, None),
        ("t == 1e999", "too-large", 5, None),
        ("t == -1e999", "too-large", 5, None),
        ('zone == "' + "x" * 70_000 + '"', "too-large", 8, None),
        ('zone.startsWith("' + "x" * 70_000 + '")', "too-large", 16, None),
    ],
)
def test_errors_point_at_the_place(text: str, kind: str, at: int, suggestion: str | None) -> None:
    with pytest.raises(InputError) as caught:
        parse(text, SCHEMA)
    assert (caught.value.kind, caught.value.at) == (kind, at)
    assert caught.value.suggestion == suggestion
    assert len(caught.value.message) < 400
    assert caught.value.message[0].islower() or caught.value.message[0] == "`"
    assert not caught.value.message.endswith(".")


@pytest.mark.parametrize(
    ("text", "kind", "at", "suggestion"),
    [
        ("subject.consumer != event.consumer", "unsupported", 20, None),
        ("!(subject.consumer == event.consumer)", "unsupported", 22, None),
        ("!(on || subject.consumer == event.consumer)", "unsupported", 28, None),
        ("subject.consumer == event.level", "type", 20, None),
        ("subject.consumer == event.consume", "syntax", 20, "event.consumer"),
        ("subject.consumer == UA", "syntax", 20, '"UA"'),
    ],
)
def test_joins_that_cannot_be(text: str, kind: str, at: int, suggestion: str | None) -> None:
    with pytest.raises(InputError) as caught:
        parse(text, SCHEMA, joins=True)
    assert (caught.value.kind, caught.value.at) == (kind, at)
    assert caught.value.suggestion == suggestion


def test_what_was_expected_is_said_in_plain_words() -> None:
    with pytest.raises(InputError, match=r"expected .*text in quotes"):
        parse("zone ==", SCHEMA)
    with pytest.raises(InputError, match="unexpected end"):
        parse("on ||", SCHEMA)
    with pytest.raises(InputError, match=r"expected one of `event\.consumer`"):
        parse("nothing", SCHEMA)


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("(", ")"),
        ("!(", ")"),
        ("!", ""),
        ("atLeast(1, [", "])"),
        ("(on && ", ")"),
        ("!(on || ", ")"),
    ],
)
def test_nesting_of_64_is_read_and_65_is_too_large(opening: str, closing: str) -> None:
    deep = parse(opening * 64 + "on" + closing * 64, SCHEMA)
    assert parse(to_text(deep), SCHEMA) == deep
    with pytest.raises(InputError) as caught:
        parse(opening * 65 + "on" + closing * 65, SCHEMA)
    assert caught.value.kind == "too-large"
    assert caught.value.at is not None


@pytest.mark.parametrize(
    "text",
    [
        "(" * 100_000,
        "!" * 100_000 + "on",
        "! " * 50_000 + "on",
        "x" * 10_000_000,
        "(" * 10_000_000,
        'zone == "' + "\\" * 10_000_000,
        "on && " * 15_000 + "on",
        "on || " * 1024 + "on",
    ],
)
def test_hostile_text_is_refused_quickly(text: str) -> None:
    started = time.perf_counter()
    with pytest.raises(InputError) as caught:
        parse(text, SCHEMA)
    assert caught.value.kind == "too-large"
    assert caught.value.at is not None
    assert time.perf_counter() - started < 20


@pytest.mark.parametrize(
    "text",
    ['"' * 100_001, "\\" * 100_000, "a." * 60_000, "[" * 100_000, ")" * 100_000, "'\"" * 50_000],
)
def test_hostile_nonsense_is_a_syntax_error(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(text, SCHEMA)
    assert caught.value.kind == "syntax"


def test_256_literals_are_read() -> None:
    text = " || ".join(f"level == {number}" for number in range(256))
    assert len(text) < MAX_TEXT
    found = parse(text, SCHEMA)
    assert isinstance(found, Or)
    assert len(found.terms) == 256


def test_names_are_sorted_and_once() -> None:
    expression = parse(
        "on && !on || atLeast(1, [zone == 'x', subject.consumer == event.consumer])",
        SCHEMA,
        joins=True,
    )
    assert names(expression) == ("event.consumer", "on", "subject.consumer", "zone")


def test_the_text_says_true_and_false_and_numbers_by_value() -> None:
    assert to_text(And((Or(()), Not(And(()))))) == "false && !true"
    assert to_text(Test("t", "==", 5.0)) == "t == 5"
    assert to_text(Test("t", "==", 1e300)) == "t == 1e+300"
    assert to_text(Not(Test("level", "<", 5))) == "!(level < 5)"
    assert to_text(Not(Test("zone", "startsWith", "x"))) == '!zone.startsWith("x")'
