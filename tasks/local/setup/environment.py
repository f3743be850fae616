"""The virtual environment `.venv` with the pinned requirements."""

from __future__ import annotations

import sys
from pathlib import Path

from tasks.local.setup import steps

_CHARM_CONFIGURATION = Path(__file__).with_name("charm.mk")


def install(root: Path) -> None:
    """Make `.venv` and install requirements.txt into it, unless that was done for the same file."""
    requirements = root / "requirements.txt"
    # A security update of Python 3.11 keeps the environment; another minor version does not.
    version = f"{sys.version_info.major}.{sys.version_info.minor}".encode()
    inputs = (requirements.read_bytes(), _CHARM_CONFIGURATION.read_bytes(), version)
    stamp = steps.Stamp(root, "requirements", inputs)
    python = root / ".venv" / "bin" / "python"
    if stamp.current and python.exists():
        return
    stamp.clear()
    steps.say("Python packages (the first time takes some minutes)")
    steps.run(
        root,
        "virtual environment",
        [sys.executable, "-m", "venv", "--clear", ".venv"],
        advice="On Debian the module comes with `apt-get install python3-venv`.",
    )
    steps.run(
        root,
        "requirements",
        [
            str(python),
            "-m",
            "pip",
            "install",
            "--disable-pip-version-check",
            "--no-input",
            "-r",
            "requirements.txt",
        ],
        # Charm's pairing module needs a library that no registry has; the rest of it builds.
        env={"CONFIG_FILE": str(_CHARM_CONFIGURATION)},
        advice="If a compiler error stands above, a header is missing: run `make setup` again.",
    )
    stamp.write()
