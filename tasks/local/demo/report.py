"""What the demo expected, what it saw, how long it took: for a person and for a program."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Check:
    """One comparison: what was expected and what was seen."""

    what: str
    expected: Any
    seen: Any
    ok: bool


@dataclass
class Step:
    """One step of the story and its checks."""

    number: int
    title: str
    seconds: float = 0.0
    checks: list[Check] = field(default_factory=list)
    error: str = ""

    @property
    def ok(self) -> bool:
        """Whether every check held, and there was one."""
        return not self.error and bool(self.checks) and all(check.ok for check in self.checks)

    def equal(self, what: str, seen: Any, expected: Any) -> bool:
        """Note a comparison for equality; whether it held."""
        check = Check(what, expected, seen, bool(seen == expected))
        self.checks.append(check)
        return check.ok

    def true(self, what: str, held: bool, seen: Any = None) -> bool:
        """Note something that must hold, with what was seen instead of a plain yes or no."""
        check = Check(what, True, bool(held) if seen is None else seen, bool(held))
        self.checks.append(check)
        return check.ok


class Report:
    """All steps; `say` gets the readable lines as they come about."""

    def __init__(
        self, say: Callable[[str], None], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.steps: list[Step] = []
        self._say = say
        self._clock = clock
        self._began = clock()

    @contextmanager
    def step(self, number: int, title: str) -> Iterator[Step]:
        """A step of the story. An exception inside ends it as failed and goes on to the caller."""
        step = Step(number, title)
        self.steps.append(step)
        began = self._clock()
        self._say(f"\n{number}. {title}")
        try:
            yield step
        except BaseException as error:
            step.error = f"{type(error).__name__}: {error}"
            raise
        finally:
            step.seconds = round(self._clock() - began, 2)
            self._finish(step)

    @property
    def ok(self) -> bool:
        """Whether there are steps and all of them held."""
        return bool(self.steps) and all(step.ok for step in self.steps)

    def write(self, path: Path) -> None:
        """Write it as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.to_json(), indent=2, default=str) + "\n", encoding="utf-8")

    def to_json(self) -> dict[str, Any]:
        """The whole report as plain values."""
        return {
            "ok": self.ok,
            "seconds": round(self._clock() - self._began, 2),
            "steps": [{**asdict(step), "ok": step.ok} for step in self.steps],
        }

    def close(self) -> None:
        """Say how it ended."""
        checks = [check for step in self.steps for check in step.checks]
        wrong = sum(not check.ok for check in checks)
        verdict = "everything as expected" if self.ok else "NOT as expected"
        self._say(
            f"\n{verdict}: {len(self.steps)} steps, {len(checks)} checks, {wrong} differ, "
            f"{self._clock() - self._began:.0f} s"
        )

    def _finish(self, step: Step) -> None:
        for check in step.checks:
            self._say(_line(check))
        if step.error:
            self._say(f"   FAILED   {step.error}")
        self._say(f"   {'ok' if step.ok else 'NOT OK'} in {step.seconds:.1f} s")


def _line(check: Check) -> str:
    if check.ok:
        shown = "" if check.seen is True else f": {_short(check.seen)}"
        return f"   as expected   {check.what}{shown}"
    return (
        f"   DIFFERS       {check.what}\n"
        f"                 expected {_short(check.expected, 600)}\n"
        f"                 seen     {_short(check.seen, 600)}"
    )


def _short(value: Any, limit: int = 100) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str, sort_keys=True)
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
