"""From bytes to requests, strictly: lines of bounded length, one JSON object each.

What JSON forbids is refused although Python's reader would let it pass (`NaN`, double
members, other encodings), and so is what only exhausts the reader (numbers of thousands
of digits, lists in lists in lists).
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, TypeAlias

from policyengine.attributes import shown
from policyengine.errors import InputError, ProblemKind

MAX_LINE: Final = 16 * 2**20
"""Longest line, in bytes; a longer one is passed over and refused."""
MAX_NESTING: Final = 64
"""How deep lists and objects of a line may nest."""
MAX_DIGITS: Final = 1000
"""Longest whole number that is read; the language's own limit is far below."""

Line: TypeAlias = bytes | None
"""A line without its end, or None for one that is longer than `MAX_LINE`."""


@dataclass(frozen=True)
class Request:
    """What was read of a line.

    Args:
        id: what the answer shall bear, any JSON value; None where the line gives none.
        body: the members of the line's object; empty where there is a problem.
        problem: what is wrong with the line, or None.
    """

    id: object
    body: Mapping[str, object]
    problem: InputError | None = None


def lines(stream: BinaryIO) -> Iterator[Line]:
    """Split a stream into lines, each as soon as it is there.

    Args:
        stream: bytes; the last line may lack its end.
    """
    while line := stream.readline(MAX_LINE + 1):
        if line.endswith(b"\n"):
            yield line[:-1]
        elif len(line) <= MAX_LINE:
            yield line
        else:
            while line and not line.endswith(b"\n"):
                line = stream.readline(MAX_LINE)
            yield None


def read(line: Line) -> Request:
    """Read a line; nothing that it holds raises.

    Where the line is JSON at all, its `id` comes back even if something else is wrong.
    """
    if line is None:
        return _refused("too-large", f"the line has over {MAX_LINE} bytes")
    findings = _Findings()
    try:
        value = json.loads(
            line.decode(),
            object_pairs_hook=findings.members,
            parse_int=findings.integer,
            parse_float=findings.real,
            parse_constant=findings.constant,
        )
    except UnicodeDecodeError as error:
        return _refused("syntax", "the line is not UTF-8", at=error.start)
    except json.JSONDecodeError as error:
        return _refused("syntax", f"the line is not JSON: {_lowered(error.msg)}", at=error.pos)
    except RecursionError:
        return _refused("too-large", f"the line nests over {MAX_NESTING} deep")
    if not isinstance(value, dict):
        return _refused("invalid", "the line is no JSON object")
    if _too_deep(value):
        return _refused("too-large", f"the line nests over {MAX_NESTING} deep", id_=_flat(value))
    if findings.problem is not None:
        return Request(value.get("id"), {}, findings.problem)
    if "id" not in value:
        return _refused("invalid", "the field `id` is missing")
    return Request(value["id"], value, _half_character(value))


class _Findings:
    """Notes the first thing that JSON forbids, so that the rest can still be read."""

    def __init__(self) -> None:
        self.problem: InputError | None = None

    def members(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            [(double, _)] = Counter(name for name, _ in pairs).most_common(1)
            self._note("invalid", f"an object has the member {shown(double)} twice")
        return found

    def integer(self, text: str) -> int:
        if len(text.removeprefix("-")) > MAX_DIGITS:
            self._note("too-large", f"a number has over {MAX_DIGITS} digits")
            return 0
        return int(text)

    def real(self, text: str) -> float:
        number = float(text)
        if not math.isfinite(number):
            self._note("too-large", f"{shown(text)} is too large for a number")
            return 0.0
        return number

    def constant(self, text: str) -> None:
        self._note("syntax", f"{shown(text)} is no JSON")

    def _note(self, kind: ProblemKind, message: str) -> None:
        if self.problem is None:
            self.problem = InputError(kind, message)


def _refused(
    kind: ProblemKind, message: str, *, at: int | None = None, id_: object = None
) -> Request:
    return Request(id_, {}, InputError(kind, message, at=at))


def _flat(value: dict[str, Any]) -> object:
    """Return the id unless it is what nests too deep."""
    return None if isinstance(value.get("id"), dict | list) else value.get("id")


def _too_deep(value: object) -> bool:
    level = [value]
    for _ in range(MAX_NESTING):
        level = [item for held in level for item in _items(held) if isinstance(item, dict | list)]
        if not level:
            return False
    return True


def _half_character(body: dict[str, Any]) -> InputError | None:
    """Return what is wrong where some text but the id is not one that UTF-8 can hold."""
    rest = {name: held for name, held in body.items() if name != "id"}
    try:
        json.dumps(rest, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return InputError("invalid", "half a character (a lone surrogate) is no text")
    return None


def _items(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:]
