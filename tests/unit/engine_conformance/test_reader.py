"""What is a line, and what is a request."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from policyengine.conformance import MAX_LINE, lines
from policyengine.conformance.reader import MAX_NESTING, read

DEEP = b'{"id": "d", "x": ' + b"[" * (MAX_NESTING - 1) + b"]" * (MAX_NESTING - 1) + b"}"

REFUSED: list[Any] = [
    (b"", "syntax", 0, None),
    (b"  \r", "syntax", 3, None),
    (b"nonsense", "syntax", 0, None),
    (b'{"id": "1"', "syntax", 10, None),
    (b'{"id": "1"} {}', "syntax", 12, None),
    (b'\xef\xbb\xbf{"id": "1"}', "syntax", 0, None),
    (b'{"id": "\xff"}', "syntax", 8, None),
    (b'{"id": "\xed\xa0\x80"}', "syntax", 8, None),
    ('{"id": "1"}'.encode("utf-16"), "syntax", 0, None),
    (b'{"id": "a\x01"}', "syntax", 9, None),
    (b"{'id': 1}", "syntax", 1, None),
    (b'{"id": 1, "x": NaN}', "syntax", None, 1),
    (b'{"id": NaN}', "syntax", None, None),
    (b'{"id": 1, "x": [-Infinity]}', "syntax", None, 1),
    (b"[1]", "invalid", None, None),
    (b'"text"', "invalid", None, None),
    (b"5", "invalid", None, None),
    (b"null", "invalid", None, None),
    (b"{}", "invalid", None, None),
    (b'{"op": "evaluate"}', "invalid", None, None),
    (b'{"id": "1", "op": 1, "op": 2}', "invalid", None, "1"),
    (b'{"id": "1", "x": [{"y": 1, "z": 2, "y": 1}]}', "invalid", None, "1"),
    (b'{"id": "1", "x": "\\ud800"}', "invalid", None, "1"),
    (b'{"id": "1", "x": [{"\\udfff": 1}]}', "invalid", None, "1"),
    (b'{"id": 1, "x": 1e999}', "too-large", None, 1),
    (b'{"id": 1, "x": [1e999, NaN], "x": 1}', "too-large", None, 1),
    (b'{"id": 1, "x": ' + b"9" * 5000 + b"}", "too-large", None, 1),
    (b'{"id": 1, "x": -' + b"9" * 10_000_000 + b"}", "too-large", None, 1),
    (b"[" * 10_000_000, "too-large", None, None),
    (b'{"a":' * 2_000_000, "too-large", None, None),
    (DEEP.replace(b"[]", b"[[]]"), "too-large", None, "d"),
    (b'{"id": ' + b"[" * 64 + b"]" * 64 + b"}", "too-large", None, None),
    (b'"' * 10_000_000, "syntax", 2, None),
    (b'{"id": "' + b"\\" * 9_999_999, "syntax", 7, None),
]


def test_lines_end_at_newlines_and_nowhere_else() -> None:
    stream = io.BytesIO(b"a\n\n b\r\x0b\xe2\x80\xa8\nlast")
    assert list(lines(stream)) == [b"a", b"", b" b\r\x0b\xe2\x80\xa8", b"last"]
    assert list(lines(io.BytesIO(b"a\n"))) == [b"a"]
    assert list(lines(io.BytesIO(b""))) == []


def test_a_line_that_is_too_long_is_passed_over() -> None:
    longest = b"x" * MAX_LINE
    stream = io.BytesIO(longest + b"\n" + longest + b"y\nafter\n" + longest * 2 + b"y")
    assert list(lines(stream)) == [longest, None, b"after", None]
    problem = read(None).problem
    assert problem is not None
    assert problem.kind == "too-large"


def test_a_line_is_there_before_the_next_one() -> None:
    class Slow(io.BytesIO):
        asked = 0

        def readline(self, size: int | None = -1, /) -> bytes:
            self.asked += 1
            return super().readline(size)

    slow = Slow(b"a\nb\n")
    assert next(lines(slow)) == b"a"
    assert slow.asked == 1


@pytest.mark.parametrize(("line", "kind", "at", "id_"), REFUSED, ids=map(str, range(len(REFUSED))))
def test_lines_that_are_refused(line: bytes, kind: str, at: int | None, id_: object) -> None:
    found = read(line)
    assert found.problem is not None
    assert (found.problem.kind, found.problem.at, found.id) == (kind, at, id_)
    assert found.problem.message[0].islower() or found.problem.message[0] == "`"
    assert len(found.problem.message) < 200


@pytest.mark.parametrize(
    "id_",
    ["1", "", "\ud800", "é😀", None, True, 0, -(10**999), 1.5, [], {}, [1, {"a": ["\udfff"]}]],
)
def test_any_id_is_read(id_: object) -> None:
    found = read(json.dumps({"id": id_, "op": "x"}).encode())
    assert found.problem is None
    assert found.id == id_
    assert found.body == {"id": id_, "op": "x"}


def test_utf_8_escapes_and_spaces_are_read() -> None:
    found = read(' {"id" : "é😀", "x": "\\ud83d\\ude00\\u0000"}\r'.encode())
    assert found.problem is None
    assert found.body == {"id": "é😀", "x": "😀\0"}
    assert read(DEEP).problem is None
