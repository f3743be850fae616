"""Rounds of partitions, each with a folder, a broker and a seed of its own."""

from __future__ import annotations

import shutil
import tempfile
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tasks.local.activemq import ActiveMQ
from tests.support.cuts import Cuts

_ROUND = 10


def rounds(
    seed: str, count: int, only: int | None
) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """What is to be played, one after the other, by names that say all that decides it.

    Args:
        seed: of all of it.
        count: how many partitions.
        only: a round to play alone; None for all of them.
    """
    for number, start in enumerate(range(0, count, _ROUND)):
        size = min(_ROUND, count - start)
        if only in (None, number):
            each = f"{seed}/partitions/{number}"
            yield f"partitions {each} {size}", partial(_round, each, size)


def _round(seed: str, count: int) -> dict[str, Any]:
    folder = Path(tempfile.mkdtemp(prefix="portcullis-soak-"))
    broker = ActiveMQ(folder / "activemq", name="a")
    try:
        broker.start()
        outcome = vars(Cuts(folder, broker, seed, count=count).run())
    except Exception as error:  # noqa: BLE001 - whatever it is, the other rounds go on
        outcome = {"seed": seed, "problems": [f"{error!r} {traceback.format_exc()}"]}
    finally:
        broker.stop()
    if outcome["problems"]:
        return {"what": "partitions", "folder": str(folder), **outcome}
    shutil.rmtree(folder)
    return {"what": "partitions", **outcome}
