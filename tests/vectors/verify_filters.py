"""Check the golden vectors of keys for filters without any of the product's code.

    python tests/vectors/verify_filters.py [FILE]

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
    from tests.vectors.verify import b64, canonical, check_signature, joined, split
else:
    import hpke_reference
    from verify import b64, canonical, check_signature, joined, split

FILE = Path(__file__).with_name("filters.json")


def check_request(vector: dict[str, Any]) -> None:
    """What a client asks: its frame, and its signature over the exact body."""
    kind, audience, body, signature = split(bytes.fromhex(vector["message"]))
    assert kind == b"filter-key"
    public = bytes.fromhex(vector["client_public"])
    check_signature(public, signature, b"portcullis/filter-request/v1", body)
    asked = json.loads(body)
    assert canonical(asked).encode() == body
    assert asked == vector["body"]
    assert asked["audience"].encode() == audience
    assert asked["attributes"] == sorted(set(asked["attributes"]))


def check_answer(vector: dict[str, Any]) -> None:
    """What the authority answers: its seal, its signature, then each key under its own seal."""
    message = bytes.fromhex(vector["message"])
    assert message[:1] == b"\x01"
    private, address = bytes.fromhex(vector["recipient_private"]), vector["body"]["audience"]
    purpose = b"portcullis/filter-answer/v1"
    inner = hpke_reference.unseal(private, message[1:], purpose + b"|" + address.encode())
    signer, body, signature = split(inner)
    assert signer == b""
    public = bytes.fromhex(vector["authority_public"])
    check_signature(public, signature, purpose, joined(address.encode(), body))
    answer = json.loads(body)
    assert canonical(answer).encode() == body
    assert answer == vector["body"]
    assert bool(answer.get("keys")) != bool(answer.get("reason"))
    found = {str(each["epoch"]): _opened(private, answer, each) for each in answer.get("keys", ())}
    assert found == vector["keys"]


def _opened(private: bytes, answer: dict[str, Any], key: dict[str, Any]) -> str:
    sealed = b64(key["key"])
    assert sealed[:1] == b"\x01"
    info = joined(
        b"portcullis/authority-seal/v1",
        b"filter",
        answer["domain"].encode(),
        key["epoch"].to_bytes(8, "big"),
        answer["type"].encode(),
        answer["audience"].encode(),
    )
    return hpke_reference.unseal(private, sealed[1:], info).decode()


def verify(vectors: dict[str, list[dict[str, Any]]]) -> int:
    """Check every vector; return how many there are."""
    assert vectors["requests"]
    assert vectors["answers"]
    for vector in vectors["requests"]:
        check_request(vector)
    for vector in vectors["answers"]:
        check_answer(vector)
    return len(vectors["requests"]) + len(vectors["answers"])


def main() -> None:
    """Check the file that is named, or the one beside this program."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    count = verify(json.loads(path.read_text(encoding="utf-8")))
    sys.stdout.write(f"filters: {count} right\n")


if __name__ == "__main__":
    main()
