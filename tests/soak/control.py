"""Rounds of kills of all parts of a site, each with a folder and a seed of its own.

The executors of a real Spark cluster are killed beside that, in a test of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tests.soak.plays import in_folder, larger
from tests.support.faults import Faults

_ROUND = 5
_EXECUTORS = (
    "tests/spark/test_processes.py"
    "::test_a_cluster_loses_executors_and_the_driver_and_tells_nobody_a_secret"
)


def rounds(
    seed: str, count: int, only: int | None
) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """What is to be played, one after the other, by names that say all that decides it.

    Args:
        seed: of all of it.
        count: how many kills of each kind of part.
        only: a round to play alone; None for all of them.
    """
    for number, start in enumerate(range(0, count, _ROUND)):
        size = min(_ROUND, count - start)
        if only in (None, number):
            each = f"{seed}/control/{number}"
            yield f"control {each} {size}", partial(_round, each, size)
            yield f"executors {each} {size}", partial(_executors, each, size)


def _round(seed: str, each: int) -> dict[str, Any]:
    return in_folder("control", seed, lambda folder: vars(Faults(folder, seed, each=each).run()))


def _executors(seed: str, kills: int) -> dict[str, Any]:
    return larger("executors", _EXECUTORS, "EXECUTORS", seed, {"KILLS": kills})
