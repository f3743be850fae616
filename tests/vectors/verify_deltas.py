"""Check the golden vectors of deltas and of outlines without any of the product's code.

    python verify_deltas.py

Written from the description of the format in docs/adr/0047: an entry is `{path: value}`, its
digest SHA-256 of its canonical JSON, an outline all digests one after another.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("deltas.json")
LISTS = {
    "agent": ["types", "agents", "clients", "epochs", "wraps", "blind", "ordered"],
    "client": ["types", "tag_keys", "predicates", "blind", "ordered"],
    "comparator": ["ordered"],
}
INSIDE = {
    ("agent", "epochs"): ["predicates", "rules", "subjects"],
    ("agent", "blind"): ["shares"],
    ("client", "blind"): ["read_policies"],
}


def canonical(value: Any) -> bytes:
    """One JSON text for one value."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def entries(kind: str, content: dict[str, Any]) -> list[dict[str, Any]]:
    """Take a content apart."""
    found = [{name: content[name]} for name in sorted(set(content) - set(LISTS[kind]))]
    for name in LISTS[kind]:
        inside = INSIDE.get((kind, name))
        for item in content.get(name, []):
            if inside is None:
                found.append({name: item})
                continue
            found.append({name: {key: item[key] for key in item if key not in inside}})
            for member in inside:
                held = item.get(member, [])
                pairs = sorted(map(list, held.items())) if isinstance(held, dict) else held
                found += [{f"{name}.{member}": one} for one in pairs]
    return found


def outline(kind: str, content: dict[str, Any]) -> bytes:
    """The digests of all entries."""
    each = (hashlib.sha256(canonical(one)).digest() for one in entries(kind, content))
    return b"".join(each)


def digest(kind: str, content: dict[str, Any]) -> str:
    """The content's digest."""
    return hashlib.sha256(b"portcullis/content/v1|" + outline(kind, content)).hexdigest()


def check(vector: dict[str, Any]) -> None:
    """Check one vector: digests, and that the steps lead from one content to the other."""
    kind, before, after, delta = (vector[name] for name in ("kind", "before", "after", "delta"))
    assert outline(kind, before).hex() == vector["outline"]
    assert delta["before"] == digest(kind, before)
    assert delta["after"] == digest(kind, after)
    held = entries(kind, before)
    made: list[dict[str, Any]] = []
    for step in delta["steps"]:
        assert step["start"] + step["count"] <= len(held)
        made += held[step["start"] : step["start"] + step["count"]]
        made += step.get("put", [])
    assert made == entries(kind, after)
    assert set(delta) == {"before", "after", "steps"}


def verify(vectors: list[dict[str, Any]]) -> int:
    """Check all; returns how many are right."""
    for vector in vectors:
        check(vector)
    return len(vectors)


if __name__ == "__main__":
    print(f"deltas: {verify(json.loads(FILE.read_text(encoding='utf-8')))} right")
