"""Write the golden vectors of deltas with the product's code, from fixed contents.

python -m tests.vectors.generate_deltas
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from policyengine.bundles import Content, Wrap, difference
from policyengine.bundles.entries import take_apart
from tests.support import bundle_samples as samples
from tests.support.content_histories import history

VECTORS = Path(__file__).with_name("deltas.json")


def document() -> list[dict[str, Any]]:
    """The vectors: every kind of audience, along histories of some revisions."""
    found = []
    for kind in ("agent", "client", "comparator"):
        contents = [_fixed(content) for content in history(kind, 3, 9)]
        for before, after in pairwise(contents):
            found.append(
                {
                    "kind": kind,
                    "before": before.to_json(),
                    "after": after.to_json(),
                    "outline": take_apart(before).outline.hex(),
                    "delta": difference(before, after).to_json(),
                }
            )
    return found


def _fixed(content: Content) -> Content:
    """Without the samples' wrap, whose seal is another one every time."""
    if not hasattr(content, "wraps"):
        return content
    fixed = Wrap(samples.WRAP.group, samples.WRAP.epoch, bytes(81))
    same = (fixed if wrap == samples.WRAP else wrap for wrap in content.wraps)
    return replace(content, wraps=tuple(same))


def text() -> str:
    """Return the vectors as they stand in the file."""
    return json.dumps(document(), sort_keys=True, ensure_ascii=False, indent=0) + "\n"


if __name__ == "__main__":
    VECTORS.write_text(text(), encoding="utf-8")
