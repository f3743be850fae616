"""Writes the golden vectors of roots: `python -m tests.vectors.generate_roots`.

Run it only when a format changes on purpose.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from policyengine.bundles.rootrequests import make_request
from policyengine.bundles.roots import ROLES, SignedRoot, encode_root, encode_roots
from tests.support.roots import ISSUED, holder, online, root, signed

VECTORS = Path(__file__).with_name("roots.json")
FRESH = tuple(holder(name).public for name in ("ben", "cyd", "dot"))

CHAIN = [
    signed(root()),
    signed(root(2, generation=2), ["cyd", "ada"]),
    signed(root(3, generation=2, holders=FRESH, reset=("flights",)), ["ada", "ben", "cyd"]),
    signed(root(4, generation=3, holders=FRESH, issued=ISSUED + 7), ["dot", "ben"]),
]
ROGUE = [
    ("one signature short", CHAIN[:1], signed(root(2), ["ada"])),
    ("of holders whom nobody knows", CHAIN[:1], signed(root(2, holders=FRESH), ["dot"])),
    ("without the holders before", CHAIN[:2], signed(root(3, holders=FRESH), ["dot", "cyd"])),
    ("without a version between", CHAIN[:1], signed(root(3))),
    ("again", CHAIN[:2], CHAIN[1]),
    ("older", CHAIN[:2], CHAIN[0]),
]


def _chain(name: str, roots: list[SignedRoot], follows: bool) -> dict[str, Any]:
    return {
        "name": name,
        "pinned": encode_root(roots[0]).decode(),
        "roots": encode_roots(roots[1:]).decode(),
        "fingerprints": [each.fingerprint for each in roots],
        "follows": follows,
    }


def document() -> dict[str, list[dict[str, Any]]]:
    """Make the whole file."""
    good = [_chain(f"{n} roots", CHAIN[:n], True) for n in range(2, len(CHAIN) + 1)]
    bad = [_chain(name, [*before, last], False) for name, before, last in ROGUE]
    keys = {role: online(role) for role in ROLES}
    return {
        "chains": good + bad,
        "requests": [{"request": make_request(keys).decode()}],
    }


def text() -> str:
    """Return the vectors as they stand in the file."""
    return json.dumps(document(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    VECTORS.write_text(text(), encoding="utf-8")
