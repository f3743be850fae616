"""The console's assets: `npm ci`, then a copy of what is used into static/vendor/."""

from __future__ import annotations

from pathlib import Path

from tasks.local.setup import steps

_INPUTS = ("package.json", "package-lock.json", ".npmrc", "adminapp/console/assets.py")


def install(root: Path) -> None:
    """Install and copy the assets, unless that was done for the same lock file and script."""
    files = [path for name in _INPUTS if (path := root / name).is_file()]
    stamp = steps.Stamp(root, "frontend", (path.read_bytes() for path in files))
    vendor = root / "static" / "vendor"
    if stamp.current and any(vendor.glob("*")):
        return
    stamp.clear()
    steps.say("front-end assets")
    steps.run(root, "npm ci", ["npm", "ci", "--no-audit", "--no-fund", "--loglevel=warn"])
    python = str(root / ".venv" / "bin" / "python")
    steps.run(root, "copy assets", [python, "-m", "adminapp.console.assets"])
    stamp.write()
