"""What no step can install: the right Python, and room on the disk."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tasks.local.errors import LocalError

GIB = 2**30
NEEDED_BYTES = 3 * GIB
"""Room for Debian's packages, the virtual environment (1.3 GB) and what pip keeps meanwhile."""
RUNNING_BYTES = GIB // 2
"""Room for database, message stores and logs once everything is installed."""


def check(root: Path) -> None:
    """Raise LocalError when Python is too old or the disk too full for what is still to do."""
    check_python(sys.version_info[:3])
    installed = (root / "var" / "setup" / "requirements.stamp").is_file()
    check_disk(shutil.disk_usage(root).free, RUNNING_BYTES if installed else NEEDED_BYTES, root)


def check_python(version: tuple[int, ...]) -> None:
    """Raise LocalError when `version` (as sys.version_info) is older than 3.11."""
    if version < (3, 11):
        found = ".".join(map(str, version))
        raise LocalError(
            f"this needs Python 3.11 or later and `python3` is {found}. Debian 12 has 3.11; "
            "with another one beside it, say `make PYTHON=python3.11 run`."
        )


def check_disk(free: int, needed: int, folder: Path) -> None:
    """Raise LocalError when fewer than `needed` bytes are free where `folder` is."""
    if free < needed:
        raise LocalError(
            f"low disk: {free / GIB:.1f} GB are free where {folder} is, and this needs "
            f"{needed / GIB:.1f} GB. Make room (for example `apt-get clean`, or `make clean` in a "
            "copy that you no longer use), or put this folder on a larger disk."
        )
