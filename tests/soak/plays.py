"""How a part of a soak run is played: in a folder of its own, or as a test with more to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tasks.local.layout import ROOT

_SECONDS = 4 * 3600


def in_folder(what: str, seed: str, play: Callable[[Path], Mapping[str, Any]]) -> dict[str, Any]:
    """Play in a new folder, which is kept where anything did not hold.

    Args:
        what: its name in the report.
        seed: of the play.
        play: returns what the report says of it, `problems` among that.
    """
    folder = Path(tempfile.mkdtemp(prefix="portcullis-soak-"))
    try:
        outcome = dict(play(folder))
    except Exception as error:  # noqa: BLE001 - whatever it is, the other rounds go on
        outcome = {"seed": seed, "problems": [f"{error!r} {traceback.format_exc()}"]}
    if outcome["problems"]:
        return {"what": what, "folder": str(folder), **outcome}
    shutil.rmtree(folder)
    return {"what": what, **outcome}


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
