"""`python3 -m tasks.local.clean`: remove what set-up, runs and tests made; sources stay."""

from __future__ import annotations

import fcntl
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FOLDERS = (
    ".venv",
    "var",
    "node_modules",
    "static/vendor",
    "staticfiles",
    "htmlcov",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
    ".hypothesis",
    ".import_linter_cache",
)


def main() -> int:
    """Remove it all; refuse while the product runs from this folder."""
    if running(ROOT / "var"):
        print("Portcullis runs from this folder: stop it first (Ctrl-C there).", file=sys.stderr)
        return 1
    for name in _FOLDERS:
        shutil.rmtree(ROOT / name, ignore_errors=True)
    for cache in ROOT.rglob("__pycache__"):
        shutil.rmtree(cache, ignore_errors=True)
    for coverage in ROOT.glob(".coverage*"):
        coverage.unlink()
    return 0


def running(var: Path) -> bool:
    """Whether a supervisor holds the lock of the state folder `var`."""
    path = var / "run" / "supervisor.lock"
    if not path.is_file():
        return False
    with path.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


if __name__ == "__main__":
    sys.exit(main())
