"""Check the golden vectors of roots without any of the product's code.

    python tests/vectors/verify_roots.py [FILE]

Prints one line a group; ends with an AssertionError if a vector differs.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

Vector = dict[str, Any]
FILE = Path(__file__).with_name("roots.json")
ROLES = ["policy", "notice", "lease", "receipt", "audit", "enrolment"]


def unb64(text: str) -> bytes:
    """URL-safe base64 without padding."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def packed(*fields: bytes) -> bytes:
    """Fields behind their lengths."""
    return b"".join(len(each).to_bytes(4, "big") + each for each in fields)


def signed(key: bytes, signature: bytes, context: bytes, payload: bytes) -> bool:
    """Whether an Ed25519 signature verifies."""
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, packed(context, payload))
    except InvalidSignature:
        return False
    return True


def count(document: Vector, holders: list[str]) -> int:
    """How many of these holders signed."""
    body = unb64(document["body"])
    return len(
        {
            made["key"]
            for made in document["signatures"]
            if made["key"] in holders
            and signed(unb64(made["key"]), unb64(made["signature"]), b"portcullis/root/v1", body)
        }
    )


def check_chain(vector: Vector) -> None:
    """Every step of a chain by the rules, to the letter."""
    documents = [json.loads(vector["pinned"]), *json.loads(vector["roots"])]
    bodies = [unb64(document["body"]) for document in documents]
    assert [hashlib.sha256(body).hexdigest() for body in bodies] == vector["fingerprints"]
    roots = [json.loads(body) for body in bodies]
    for root, body in zip(roots, bodies, strict=True):
        assert json.dumps(root, sort_keys=True, separators=(",", ":")).encode() == body
        assert set(ROLES) < set(root)
    assert count(documents[0], roots[0]["holders"]) >= roots[0]["threshold"]
    steps = zip(roots, roots[1:], documents[1:], strict=False)
    follows = all(
        after["version"] == before["version"] + 1
        and count(document, before["holders"]) >= before["threshold"]
        and count(document, after["holders"]) >= after["threshold"]
        for before, after, document in steps
    )
    assert follows == vector["follows"], vector["name"]


def check_request(vector: Vector) -> None:
    """Every key signed all of them in its role."""
    request = json.loads(vector["request"])
    keys = [unb64(request[role]) for role in ROLES]
    for role, key, proof in zip(ROLES, keys, request["proofs"], strict=True):
        payload = packed(role.encode(), *keys)
        assert signed(key, unb64(proof), b"portcullis/root-request/v1", payload)


CHECKS = {"chains": check_chain, "requests": check_request}


def verify(vectors: dict[str, list[Vector]]) -> dict[str, int]:
    """Check every vector; return how many there are in each group."""
    assert set(vectors) == set(CHECKS)
    for group, items in vectors.items():
        assert items, group
        for vector in items:
            CHECKS[group](vector)
    return {group: len(items) for group, items in vectors.items()}


def main() -> None:
    """Check the file that is named, or the one beside this program."""
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    for group, count_ in verify(json.loads(file.read_text(encoding="utf-8"))).items():
        sys.stdout.write(f"{group}: {count_} right\n")


if __name__ == "__main__":
    main()
