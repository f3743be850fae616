"""Running one benchmark in a process of its own."""

from __future__ import annotations

import importlib
import multiprocessing
import resource
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from benchmarks.aims import Aim

PREFIX = "bench_"


def alone(name: str, argv: Sequence[str]) -> tuple[list[Aim], int]:
    """Run a benchmark; return its aims and the most memory that its process had, in bytes."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        return pool.submit(_run, name, list(argv)).result()


def _run(name: str, argv: list[str]) -> tuple[list[Aim], int]:
    aims = importlib.import_module(f"benchmarks.{PREFIX}{name}").main(argv)
    sys.stdout.flush()
    return list(aims or ()), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
