"""Records: a wrong value can neither be made nor read."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any

import pytest

from policyengine.errors import DecodeError, InputError
from policyengine.primitives import records
from policyengine.primitives.records import (
    DIGEST,
    DIGEST_OR_EMPTY,
    HEX_ID,
    IDENTIFIER,
    KEY,
    LABEL,
    SENTENCE,
    UINT,
    WRITTEN,
    Binary,
    Boolean,
    Choice,
    Document,
    Integer,
    ListOf,
    MapOf,
    Nested,
    Number,
    Record,
    Scalar,
    Text,
)


class Colour(enum.StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Inner(Record):
    number: Annotated[int, Integer(1, 9)]


@dataclass(frozen=True)
class Sample(Record):
    name: Annotated[str, IDENTIFIER]
    colour: Annotated[str, Choice(("red", "blue"))]
    key: Annotated[bytes, KEY]
    maybe: Annotated[int | None, records.Optional(UINT)]
    parts: Annotated[tuple[bytes, ...], ListOf(Binary(1, 4), 3, unique=True)]
    table: Annotated[Mapping[str, bool], MapOf(LABEL, Boolean(), 2)]
    inner: Annotated[Inner, Nested(Inner)]
    time: Annotated[float, Number()]
    values: Annotated[Mapping[str, Any], MapOf(Text(), Scalar())]
    document: Annotated[Mapping[str, Any], Document()]


def sample(**changes: Any) -> Sample:
    members: dict[str, Any] = {
        "name": "alpha",
        "colour": "red",
        "key": b"k" * 32,
        "maybe": None,
        "parts": (b"a", b"bc"),
        "table": {"on": True},
        "inner": Inner(3),
        "time": 1.5,
        "values": {"a": 1, "b": "x", "c": True, "d": 2.5},
        "document": {"a": [1, {"b": None}]},
    }
    return Sample(**{**members, **changes})


def test_a_record_survives_json():
    for item in (sample(), sample(maybe=0)):
        assert Sample.from_json(item.to_json()) == item


def test_values_come_into_their_one_form():
    item = sample(
        name=Colour.RED,
        colour=Colour.RED,
        key=memoryview(b"k" * 32),
        parts=[bytearray(b"a")],
        table=MappingProxyType({"on": True}),
        time=2,
        document=MappingProxyType({"a": (1, 2)}),
    )
    assert type(item.name) is str
    assert type(item.colour) is str
    assert type(item.key) is bytes
    assert item.parts == (b"a",)
    assert item.table == {"on": True}
    assert type(item.time) is float
    assert item.document == {"a": [1, 2]}


WRONG = [
    ("name", ""),
    ("name", "Alpha"),
    ("name", "a" * 65),
    ("name", "alpha\n"),
    ("name", "a.b"),
    ("name", 5),
    ("name", None),
    ("colour", "green"),
    ("colour", 1),
    ("key", b"k" * 31),
    ("key", b"k" * 33),
    ("key", "k" * 32),
    ("maybe", -1),
    ("maybe", 2**63),
    ("maybe", True),
    ("maybe", 1.0),
    ("parts", b"ab"),
    ("parts", (b"",)),
    ("parts", (b"abcde",)),
    ("parts", (b"a", b"b", b"c", b"d")),
    ("parts", (b"a", b"a")),
    ("parts", {b"a"}),
    ("table", {"on": 1}),
    ("table", {"": True}),
    ("table", {"a": True, "b": True, "c": True}),
    ("table", {"tab\t": True}),
    ("table", [("on", True)]),
    ("inner", {"number": 3}),
    ("inner", None),
    ("time", float("nan")),
    ("time", float("inf")),
    ("time", True),
    ("time", "1.5"),
    ("time", 10**400),
    ("values", {"a": None}),
    ("values", {"a": float("inf")}),
    ("values", {"a": 2**63}),
    ("values", {"a": -(2**63) - 1}),
    ("values", {"a": [1]}),
    ("values", {1: 1}),
    ("document", []),
    ("document", {"a": b"x"}),
    ("document", {"a": {1: 2}}),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_wrong_value_cannot_be_made(name, value):
    with pytest.raises(InputError) as caught:
        sample(**{name: value})
    assert caught.value.where == name


def test_a_document_nests_at_most_32_deep():
    deep: Any = 1
    for _ in range(31):
        deep = [deep]
    assert sample(document={"a": deep}).document["a"] == deep
    with pytest.raises(InputError):
        sample(document={"a": [deep]})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("name", "Alpha"),
        ("name", None),
        ("colour", "green"),
        ("key", "k"),
        ("key", "AA"),
        ("key", None),
        ("maybe", "1"),
        ("maybe", True),
        ("parts", "YQ"),
        ("parts", [1]),
        ("parts", ["YQ", "YQ"]),
        ("parts", {}),
        ("table", []),
        ("table", {"on": 1}),
        ("inner", {"number": 10}),
        ("inner", {"number": 3, "more": 1}),
        ("inner", {}),
        ("inner", {"other": 3}),
        ("inner", 3),
        ("time", 1),
        ("time", "1.5"),
        ("values", {"a": None}),
        ("document", 1),
    ],
)
def test_a_wrong_member_is_not_read(name, value):
    with pytest.raises(DecodeError):
        Sample.from_json({**sample().to_json(), name: value})


def test_missing_unknown_and_renamed_members_are_not_read():
    whole = sample().to_json()
    for name in whole:
        less = {key: value for key, value in whole.items() if key != name}
        with pytest.raises(DecodeError):
            Sample.from_json(less)
        with pytest.raises(DecodeError):
            Sample.from_json({**less, name + "x": whole[name]})
    with pytest.raises(DecodeError):
        Sample.from_json({**whole, "more": 1})
    for other in (None, [], "x", MappingProxyType(whole)):
        with pytest.raises(DecodeError):
            Sample.from_json(other)


@pytest.mark.parametrize(
    ("codec", "good", "bad"),
    [
        (DIGEST, "0f" * 32, "0F" * 32),
        (DIGEST, "0f" * 32, ""),
        (DIGEST_OR_EMPTY, "", "0"),
        (HEX_ID, "0f" * 16, "0f" * 32),
        (SENTENCE, "", "two\nlines"),
        (SENTENCE, "x" * 1000, "x" * 1001),
        (LABEL, "Wärme 1", ""),
        (LABEL, "x" * 128, "x" * 129),
        (Text(), "any\ntext", 1),
    ],
)
def test_common_codecs(codec, good, bad):
    assert codec.clean(good, "it") == good
    with pytest.raises(InputError):
        codec.clean(bad, "it")


@dataclass(frozen=True)
class Uncoded(Record):
    name: str


@dataclass(frozen=True)
class Miscoded(Record):
    name: Annotated[str, "text"]


@pytest.mark.parametrize("record", [Uncoded, Miscoded])
def test_a_field_without_a_codec_is_a_mistake_of_the_programmer(record):
    with pytest.raises(TypeError):
        record("x")


@dataclass(frozen=True)
class Grown(Record):
    """A record of a newer release: `notes` came later, `colour` was always there."""

    name: Annotated[str, IDENTIFIER]
    colour: Annotated[str, Choice(("red", "blue"))] = field(default="red", metadata=WRITTEN)
    notes: Annotated[tuple[str, ...], ListOf(LABEL)] = ()


def test_a_later_field_is_left_out_where_it_says_nothing_new() -> None:
    plain, noted = Grown("a"), Grown("a", "blue", ("x",))
    assert plain.to_json() == {"name": "a", "colour": "red"}
    assert noted.to_json() == {"name": "a", "colour": "blue", "notes": ["x"]}
    assert Grown.from_json(plain.to_json()) == plain
    assert Grown.from_json(noted.to_json()) == noted


@pytest.mark.parametrize(
    "document",
    [
        {"name": "a"},
        {"name": "a", "colour": "red", "notes": []},
        {"name": "a", "colour": "red", "notes": ["x"], "more": 1},
        {"name": "a", "colour": "red", "more": 1},
        {"name": "a", "notes": ["x"]},
        [],
    ],
)
def test_a_record_with_a_later_field_has_one_form(document: object) -> None:
    with pytest.raises(DecodeError, match="other members"):
        Grown.from_json(document)
