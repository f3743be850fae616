"""Tests with more to do than in `make test`."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

from tasks.local.layout import ROOT

_SECONDS = 4 * 3600


def larger(what: str, test: str, name: str, seed: str, size: Mapping[str, int]) -> dict[str, Any]:
    """Run a test at another size; returns what the report says of it.

    Args:
        what: its name in the report.
        test: as pytest is given it.
        name: of its settings: it reads `PORTCULLIS_NAME_SEED`, and what `size` says.
        seed: where it begins.
        size: how much there is to do.
    """
    started = time.monotonic()
    settings = {f"PORTCULLIS_{name}_{each}": str(value) for each, value in size.items()}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", test, "-q", "-p", "no:cacheprovider"],
        cwd=ROOT,
        env={**os.environ, **settings, f"PORTCULLIS_{name}_SEED": seed},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    seconds = round(time.monotonic() - started, 1)
    problems = [] if done.returncode == 0 else [done.stdout[-4000:] + done.stderr[-1000:]]
    sizes = {each.lower(): value for each, value in size.items()}
    return {"what": what, "seed": seed, **sizes, "seconds": seconds, "problems": problems}
