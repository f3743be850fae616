"""Canonical JSON and length-prefixed fields: one value, one text, nothing else accepted."""

import math

import pytest

from policyengine.errors import DecodeError, InputError
from policyengine.primitives import b64, dumps, loads, pack, unb64, unpack
from policyengine.primitives.canonical import unpack_all


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, b"null"),
        (True, b"true"),
        (-7, b"-7"),
        (1.0, b"1.0"),
        (1e22, b"1e+22"),
        (0.1, b"0.1"),
        ('ä\n"', '"ä\\n\\""'.encode()),
        ((1, [2]), b"[1,[2]]"),
        ({"b": 1, "a": {"d": [], "c": {}}}, b'{"a":{"c":{},"d":[]},"b":1}'),
        ({"\ue000": 1, "\U0001f600": 2}, '{"\ue000":1,"\U0001f600":2}'.encode()),
        (2**200, str(2**200).encode()),
    ],
)
def test_one_value_has_one_text(value, text):
    assert dumps(value) == text
    assert dumps(loads(text)) == text


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, -math.inf, b"bytes", {1: 2}, {1, 2}, "\ud800", {"\udfff": 1}, object()],
)
def test_what_has_no_canonical_form_is_refused(value):
    with pytest.raises(InputError) as caught:
        dumps([value])
    assert caught.value.kind == "invalid"


def test_nesting_is_capped_when_writing_and_reading():
    deep: object = 1
    for _ in range(64):
        deep = [deep]
    text = dumps(deep)
    assert loads(text) == deep
    with pytest.raises(InputError) as caught:
        dumps([deep])
    assert caught.value.kind == "too-large"
    with pytest.raises(DecodeError):
        loads(b"[" + text + b"]")
    assert loads(b"[[]]", max_depth=2) == [[]]
    with pytest.raises(DecodeError):
        loads(b"[[]]", max_depth=1)


def test_a_bracket_bomb_is_refused_and_not_a_crash():
    with pytest.raises(DecodeError):
        loads(b"[" * 1_000_000 + b"]" * 1_000_000)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" 1",
        b"1 ",
        b"[1, 2]",
        b'{"b":1,"a":2}',
        b'{"a":1,"a":1}',
        b'{"a":1,"a":2}',
        b"NaN",
        b"Infinity",
        b"1e400",
        b"1.50",
        b"1e5",
        b"-0",
        b"01",
        b'"\\u00e4"',
        b'"\\/"',
        b'"\\ud800"',
        b'"\xff"',
        b"\xef\xbb\xbf1",
        b"[1]x",
        b"9" * 5000,
    ],
)
def test_another_spelling_is_refused(data):
    with pytest.raises(DecodeError):
        loads(data)


def test_the_size_is_capped_before_parsing():
    assert loads(b'"abc"', max_bytes=5) == "abc"
    with pytest.raises(DecodeError, match="too large"):
        loads(b'"abc"', max_bytes=4)
    with pytest.raises(DecodeError, match="too large"):
        loads(b" " * (8 * 2**20 + 1))


def test_fields_round_trip():
    fields = (b"", b"a", b"\x00" * 300)
    assert unpack(pack(*fields), 3) == fields
    assert unpack(pack(), 0) == ()
    assert pack(b"ab", b"c") != pack(b"a", b"bc")
    assert pack(b"ab") == b"\x00\x00\x00\x02ab"


@pytest.mark.parametrize("count", [0, 1, 3])
def test_another_number_of_fields_is_refused(count):
    with pytest.raises(DecodeError):
        unpack(pack(b"a", b"b"), count)


@pytest.mark.parametrize("data", [b"\x00", b"\x00\x00\x00\x02a", b"\xff\xff\xff\xff", b"\x00" * 5])
def test_fields_that_do_not_fit_are_refused(data):
    with pytest.raises(DecodeError):
        unpack_all(data, limit=10)


def test_base64_has_one_text_for_one_value():
    for size in range(5):
        data = b"\xfb\xff\xfe\x01"[:size]
        assert unb64(b64(data)) == data
        assert "=" not in b64(data)
    assert b64(b"\xfb\xff") == "-_8"


@pytest.mark.parametrize("text", ["-_8=", "+/8", "-_9", "a", "a b", "-_8\n", "ä", "-_8!"])
def test_another_base64_text_is_refused(text):
    with pytest.raises(DecodeError):
        unb64(text)
