"""What people and programs read: tables, JSON, YAML; progress for those who look on."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

import yaml
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
)
from rich.table import Table
from rich.text import Text

FORMATS = ("table", "json", "yaml")
_UNSEEN = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
Advance = Any  # rich's tasks are updated with keywords of many types


class Output:
    """Writes results to standard output and everything else to standard error.

    Args:
        form: `table`, `json` or `yaml`.
        out: where results go.
        err: where progress and problems go.
    """

    def __init__(
        self, form: str = "table", *, out: IO[str] | None = None, err: IO[str] | None = None
    ) -> None:
        self.form = form
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        self._console = Console(file=self._out, highlight=False, soft_wrap=True)
        self._errors = Console(file=self._err, highlight=False, soft_wrap=True)

    @property
    def for_people(self) -> bool:
        return self.form == "table"

    @property
    def console(self) -> Console:
        """Where results for people go."""
        return self._console

    @property
    def watched(self) -> bool:
        """Whether somebody looks on."""
        return self._err.isatty()

    def data(self, value: Any) -> None:
        """A whole result as JSON or YAML."""
        if self.form == "yaml":
            yaml.safe_dump(value, self._out, sort_keys=False, allow_unicode=True)
        else:
            self._out.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")

    def line(self, value: Any) -> None:
        """A result as one line of JSON, which whoever reads has at once.

        Raises:
            OSError: nobody reads any more.
        """
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        # Allowed in JSON as they are, but a terminal would obey them.
        self._out.write(_UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")
        self._out.flush()

    def text(self, line: str, style: str = "") -> None:
        """A line for people; what came from outside is not read as markup."""
        self._console.print(Text(plain(line), style=style))

    def raw(self, text: str) -> None:
        """Text as it is."""
        self._out.write(text)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """A table; plain columns between tabulators where nobody looks on."""
        if not self._console.is_terminal:
            self._out.write("\t".join(columns) + "\n")
            for row in rows:
                self._out.write("\t".join(plain(each) for each in row) + "\n")
            return
        table = Table(*columns, box=None, pad_edge=False, header_style="bold")
        for row in rows:
            table.add_row(*(Text(plain(each)) for each in row))
        self._console.print(table, soft_wrap=False)

    def note(self, line: str) -> None:
        """Something to know while the command works, on standard error."""
        self._errors.print(Text(plain(line)))

    def error(self, message: str, details: Iterable[str] = ()) -> None:
        """A problem, on standard error."""
        self._errors.print(Text(f"policyctl: {plain(message)}"))
        for line in details:
            self._errors.print(Text(f"  {plain(line)}"))

    @contextmanager
    def progress(
        self, what: str, *, total: int | None = None, size: bool = False, lines: bool = False
    ) -> Iterator[Any]:
        """A bar on standard error; gives what is called with how far it is and the total.

        Args:
            size: whether bytes are counted.
            lines: whether results are written meanwhile; on the same terminal they are enough.
        """
        counter: ProgressColumn = DownloadColumn() if size else MofNCompleteColumn()
        with Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            counter,
            console=self._errors,
            transient=True,
            disable=not self.watched or (lines and self._out.isatty()),
        ) as bar:
            task = bar.add_task(what, total=total)

            def show(done: int, of: int | None = None) -> None:
                bar.update(task, completed=done, total=of if of is not None else total)

            yield show


def plain(value: Any) -> str:
    """A value as one line that commands nothing of a terminal."""
    if isinstance(value, list | tuple):
        return ", ".join(plain(each) for each in value)
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False, sort_keys=True)
    text = "" if value is None else str(value)
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)
