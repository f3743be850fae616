"""Rounds of partitions, each with a folder, a broker and a seed of its own.

In each agents and clients are cut off from their broker, and then a site from its own servers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tasks.local.activemq import ActiveMQ
from tests.soak.plays import in_folder
from tests.support.cuts import Cuts
from tests.support.splits import Splits

_ROUND = 10


def rounds(
    seed: str, count: int, only: int | None
) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """What is to be played, one after the other, by names that say all that decides it.

    Args:
        seed: of all of it.
        count: how many partitions of each of the two.
        only: a round to play alone; None for all of them.
    """
    for number, start in enumerate(range(0, count, _ROUND)):
        size = min(_ROUND, count - start)
        if only in (None, number):
            each = f"{seed}/partitions/{number}"
            yield f"partitions {each} {size}", partial(_round, each, size)
            yield f"splits {each} {size}", partial(_splits, each, size)


def _round(seed: str, count: int) -> dict[str, Any]:
    return in_folder("partitions", seed, partial(_play, seed, count))


def _play(seed: str, count: int, folder: Path) -> dict[str, Any]:
    broker = ActiveMQ(folder / "activemq", name="a")
    try:
        broker.start()
        return vars(Cuts(folder, broker, seed, count=count).run())
    finally:
        broker.stop()


def _splits(seed: str, count: int) -> dict[str, Any]:
    return in_folder("splits", seed, lambda folder: vars(Splits(folder, seed, count=count).run()))
