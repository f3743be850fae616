"""What a benchmark is for: ratios to reach against a baseline of the same run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.tables import table, times


@dataclass(frozen=True, slots=True)
class Aim:
    """One ratio.

    Args:
        what: what was measured.
        baseline: what it was measured against.
        wanted: how many times better it is to be.
        measured: how many times better it was.
    """

    what: str
    baseline: str
    wanted: float
    measured: float

    @property
    def reached(self) -> bool:
        """Tell whether the aim was reached."""
        return self.measured >= self.wanted


def summary(aims: Sequence[Aim]) -> None:
    """Print every aim beside what was measured."""
    rows = [
        [
            aim.what,
            aim.baseline,
            times(aim.wanted),
            times(aim.measured),
            "reached" if aim.reached else "NOT reached",
        ]
        for aim in aims
    ]
    table("aims", ["what", "baseline", "aim", "measured", ""], rows)
