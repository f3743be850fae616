"""The brokers file that control plane, agents and clients find their ActiveMQ brokers in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_brokers_file(
    path: Path, overlays: Mapping[str, Mapping[str, Any]], *, control: str = "a"
) -> Path:
    """Write `path` (mode 0600, whole or not at all) and return it.

    `overlays` maps an overlay's name to its broker's entry (ActiveMQ.entry makes one); `control`
    names the overlay whose broker also carries the control queues.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".new")
    fresh.touch(mode=0o600)
    fresh.chmod(0o600)
    fresh.write_text(json.dumps({"control": control, "overlays": dict(overlays)}, indent=2) + "\n")
    fresh.replace(path)
    return path
