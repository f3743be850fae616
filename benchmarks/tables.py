"""Tables of a benchmark, and the clock they are filled with."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from statistics import median


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows under their columns, the first to the left and the others to the right."""
    cells = [[str(cell) for cell in row] for row in (columns, *rows)]
    widths = [max(len(row[place]) for row in cells) for place in range(len(columns))]
    print(f"\n{title}")
    for number, row in enumerate(cells):
        first = row[0].ljust(widths[0])
        rest = "  ".join(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        print(f"  {first}  {rest}".rstrip())
        if number == 0:
            print("  " + "  ".join("-" * width for width in widths))


def seconds(work: Callable[[], object], *, repeat: int = 3) -> float:
    """Measure some work: the median of a few runs, without the collector."""
    taken = []
    for _ in range(repeat):
        gc.collect()
        gc.disable()
        try:
            start = time.perf_counter()
            work()
            taken.append(time.perf_counter() - start)
        finally:
            gc.enable()
    return median(taken)


def human(value: float) -> str:
    """Write a duration in the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def times(ratio: float) -> str:
    """Write a ratio."""
    return f"{ratio:.0f} x" if ratio >= 20 else f"{ratio:.2f} x"
