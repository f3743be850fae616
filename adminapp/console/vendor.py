"""Where the front-end parts of `static/vendor` are, by their plain names."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Warning, register  # noqa: A004
from django.templatetags.static import static

from adminapp.console.assets import MANIFEST

FOLDER = Path(settings.BASE_DIR) / "static" / "vendor"


def address(name: str) -> str:
    """The address of the file that `name` (`bootstrap.css`, `icons.svg`) stands for now."""
    return static(f"vendor/{_manifest(_written()).get(name, name)}")


def _written() -> int:
    try:
        return (FOLDER / MANIFEST).stat().st_mtime_ns
    except FileNotFoundError:
        return 0


@lru_cache(maxsize=1)
def _manifest(written: int) -> dict[str, str]:
    # The time of writing is the cache's key: new assets count without a restart.
    if not written:
        return {}
    names: dict[str, str] = json.loads((FOLDER / MANIFEST).read_text("utf-8"))
    return names


@register
def vendored_parts_present(**_: Any) -> list[CheckMessage]:
    """Django's system check: say so when the console would come without its looks."""
    if _written():
        return []
    return [
        Warning(
            "the console's front-end parts are missing",
            hint="run `npm ci` and `python -m adminapp.console.assets`",
            id="console.W001",
        )
    ]
