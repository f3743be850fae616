"""Reads a table from a CSV file of unknown origin, and says what is wrong where."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

# The longest field is a certificate; csv's own limit is one for all threads and stays as it is.
MAX_FIELD: Final = 64 * 1024
MAX_COLUMNS: Final = 300
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
# What a spreadsheet would run: `=1+1`, `@SUM(A1)`, `+cmd|...`; numbers may begin with a sign.
_FORMULA: Final = re.compile(r"[=@\t\r]|[+-](?![\d .()/-]*\Z)(?![\d.]+[eE][+-]?\d+\Z)")


@dataclass(frozen=True)
class Refusal:
    """One reason why a row is not taken.

    Args:
        line: number of the row's first line in the file, the header being 1.
        column: the column's name; "" is the whole row.
        reason: what is wrong, for a person.
    """

    line: int
    column: str
    reason: str


@dataclass(frozen=True)
class Record:
    """A row by column, empty cells left out."""

    line: int
    cells: dict[str, str]


class Unreadable(Exception):
    """The file is no table of ours; nothing of it is taken."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


def records(path: Path, fixed: frozenset[str], prefix: str) -> Iterator[Record | Refusal]:
    """The rows of a file; those that cannot be read as refusals.

    Args:
        path: UTF-8, with or without a byte order mark, columns separated by commas.
        fixed: names of columns that may be there.
        prefix: what the names of further columns begin with.

    Raises:
        Unreadable: there is no header, or one with columns that mean nothing.
    """
    with _opened(path) as file:
        reader = csv.reader(file, strict=True)
        header = _header(reader, fixed, prefix)
        while True:
            line = reader.line_num + 1
            try:
                row = next(reader, None)
            except csv.Error as error:
                yield _broken(line, reader.line_num, error)
                continue
            if row is None:
                return
            if any(cell.strip() for cell in row):
                yield _record(line, header, row)


def count_lines(path: Path) -> int:
    """How many lines a file has; at least as many as rows."""
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))


def _opened(path: Path) -> IO[str]:
    with path.open("rb") as file:
        start = file.read(4)
    if start.startswith(_UTF16) or start[1:2] == b"\x00":
        raise Unreadable(Refusal(1, "", "the file is UTF-16; save it as CSV in UTF-8"))
    # Bytes that are no UTF-8 become marks that `_cell_problem` finds, and name their row.
    return path.open(encoding="utf-8-sig", errors="surrogateescape", newline="")


def _header(reader: Iterator[list[str]], fixed: frozenset[str], prefix: str) -> list[str]:
    try:
        row = next(reader, None)
    except csv.Error as error:
        raise Unreadable(Refusal(1, "", f"the header cannot be read: {error}")) from error
    names = [cell.strip() for cell in row or []]
    if not any(names):
        raise Unreadable(Refusal(1, "", "the first line must name the columns"))
    if len(names) == 1 and (";" in names[0] or "\t" in names[0]):
        raise Unreadable(Refusal(1, "", "separate the columns with commas"))
    if len(names) > MAX_COLUMNS:
        raise Unreadable(Refusal(1, "", f"a file has at most {MAX_COLUMNS} columns"))
    for name in names:
        problem = cell_problem(name)
        further = name.startswith(prefix) and len(name) > len(prefix)
        if problem is None and name not in fixed and not further:
            allowed = ", ".join([*sorted(fixed), f"{prefix}<name>"])
            problem = f"there is no such column; there are {allowed}"
        if problem is None and names.count(name) > 1:
            problem = "this column is there twice"
        if problem is not None:
            raise Unreadable(Refusal(1, printable(name), problem))
    return names


def _record(line: int, header: list[str], row: list[str]) -> Record | Refusal:
    if len(row) > len(header) and any(cell.strip() for cell in row[len(header) :]):
        return Refusal(line, "", f"there are {len(row)} cells for {len(header)} columns")
    cells = {}
    for name, cell in zip(header, row, strict=False):
        problem = cell_problem(cell)
        if problem is not None:
            return Refusal(line, name, problem)
        value = cell.strip(" ")
        if value:
            cells[name] = value
    return Record(line, cells)


def _broken(first: int, last: int, error: csv.Error) -> Refusal:
    lines = f"line {first}" if last <= first else f"lines {first} to {last}"
    if "field larger" in str(error):
        reason = "a field is too long, perhaps because a quotation mark is not closed"
    elif "unexpected end" in str(error):
        reason = "a quotation mark is not closed"
    else:
        reason = "a quotation mark stands where none may"
    return Refusal(first, "", f"{lines}: {reason}")


def cell_problem(cell: str) -> str | None:
    """What is wrong with the text of a cell, whatever it means."""
    if len(cell) > MAX_FIELD:
        return f"a field has at most {MAX_FIELD} characters"
    if "\x00" in cell:
        return "this holds a null character"
    if not cell.isascii() and any("\udc80" <= each <= "\udcff" for each in cell):
        return "this is not UTF-8; save the file as CSV in UTF-8"
    return None


class _Line:
    """A file of one line, for `csv.writer`."""

    def write(self, text: str) -> str:
        return text


def report_lines(found: Iterable[Refusal]) -> Iterator[str]:
    """What was refused as the lines of a CSV file, the header first."""
    writer = csv.writer(_Line())
    yield writer.writerow(["line", "column", "reason"])
    for each in found:
        # What somebody else wrote must not run in the spreadsheet that opens this.
        cells = [f"'{text}" if is_formula(text) else text for text in (each.column, each.reason)]
        yield writer.writerow([each.line, *cells])


def is_formula(cell: str) -> bool:
    """Whether a spreadsheet that opens this text would run it."""
    return _FORMULA.match(cell) is not None


def printable(text: str, limit: int = 64) -> str:
    """Text of unknown origin for a report: without control characters, cut short."""
    cleaned = "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)
    return cleaned if len(cleaned) <= limit else f"{cleaned[:limit]}..."
