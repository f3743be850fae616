"""Check the golden vectors of decision reports without any of the product's code.

    python tests/vectors/verify_decisions.py [FILE]

Written anew from the documented layout. Prints how many are right; ends with an
AssertionError, or the library's own refusal, if one differs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

if __package__:
    from tests.vectors import hpke_reference
    from tests.vectors.verify import b64, canonical, check_signature, split
else:
    import hpke_reference
    from verify import b64, canonical, check_signature, split

FILE = Path(__file__).with_name("decisions.json")


def check(vector: dict[str, Any]) -> None:
    """One report: its frame, its signature over the exact body, then the sealed rows."""
    kind, audience, body, signature = split(bytes.fromhex(vector["message"]))
    assert kind == b"decisions"
    public = bytes.fromhex(vector["agent_public"])
    check_signature(public, signature, b"portcullis/decision-report/v1", body)
    report = json.loads(body)
    assert canonical(report).encode() == body
    assert report == vector["report"]
    assert report["audience"].encode() == audience
    place = (report["domain"], report["audience"], report["stream"], str(report["sequence"]))
    info = "|".join(("portcullis/decisions/v1", *place)).encode()
    sealed = b64(report["sealed"])
    assert sealed[:1] == b"\x01"
    private = bytes.fromhex(vector["recipient_private"])
    plain = hpke_reference.unseal(private, sealed[1:], info)
    lines = plain.split(b"\n") if plain else []
    assert lines == [canonical(row).encode() for row in vector["rows"]]
    assert report["records"] == len(lines)


def verify(vectors: list[dict[str, Any]]) -> int:
    """Check every vector; return how many there are."""
    assert vectors
    for vector in vectors:
        check(vector)
    return len(vectors)


def main() -> None:
    """Check the file that is named, or the one beside this program."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    count = verify(json.loads(path.read_text(encoding="utf-8")))
    sys.stdout.write(f"decisions: {count} right\n")


if __name__ == "__main__":
    main()
