"""Check the golden vectors of routing without any of the product's code.

    python tests/vectors/verify_routing.py [FILE]

AES-GCM and Ed25519 are `cryptography`'s; layouts, canonical JSON and the weights of
rendezvous hashing are written anew. Prints one line a group; ends with an error if a
vector differs.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

Vector = dict[str, Any]
FILE = Path(__file__).with_name("routing.json")


def joined(*fields: bytes) -> bytes:
    """Length-prefixed fields."""
    return b"".join(len(one).to_bytes(4, "big") + one for one in fields)


def split(data: bytes) -> list[bytes]:
    """Read length-prefixed fields."""
    fields = []
    while data:
        size = int.from_bytes(data[:4], "big")
        assert len(data) >= 4 + size
        fields.append(data[4 : 4 + size])
        data = data[4 + size :]
    return fields


def opened(key: bytes, sealed: bytes, aad: bytes) -> bytes:
    """AES-256-GCM behind a version byte and a nonce."""
    assert sealed[0] == 1
    return AESGCM(key).decrypt(sealed[1:13], sealed[13:], sealed[:1] + aad)


def canonical(value: Any) -> bytes:
    """Canonical JSON."""
    return json.dumps(
        value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
    ).encode()


def frame(vector: Vector, kind: bytes, purpose: bytes) -> tuple[bytes, list[bytes]]:
    """What is under the overlay's key, and what follows it."""
    name, number, sealed, *rest = split(bytes.fromhex(vector["sealed"]))
    assert name == kind
    assert number == vector["epoch"].to_bytes(8, "big")
    return opened(bytes.fromhex(vector["key"]), sealed, joined(purpose, number)), rest


def check_announcement(vector: Vector) -> None:
    """Signed by its agent, under the overlay's key."""
    purpose = b"portcullis/interest/v1"
    inner, rest = frame(vector, b"hop/interest", purpose)
    agent, body, signature = split(inner)
    assert not rest
    assert agent.decode() == vector["body"]["agent"]
    assert body == canonical(vector["body"])
    public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(vector["public"]))
    public.verify(signature, joined(purpose, body))


def check_carried(vector: Vector) -> None:
    """Orders bound to the hop that they travel with."""
    hop = bytes.fromhex(vector["hop"])
    purpose = b"portcullis/carriage/v1" + sha256(hop).digest()
    assert frame(vector, b"hop/carried", purpose) == (canonical(vector["body"]), [hop])


def check_taken(vector: Vector) -> None:
    """A receipt."""
    purpose = b"portcullis/taken/v1"
    assert frame(vector, b"hop/taken", purpose) == (canonical(vector["body"]), [])


def check_filter(vector: Vector) -> None:
    """The same expression under each key, padded."""
    assert sorted(vector["sealed"]) == sorted(vector["keys"])
    for name, entry in vector["sealed"].items():
        epoch, key = vector["keys"][name]
        number, _, text = entry.partition(":")
        assert number == str(epoch)
        sealed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        bound = (vector["domain"], vector["agent"], name, str(epoch))
        aad = joined(b"portcullis/interest/v1", *(one.encode() for one in bound))
        plain = opened(bytes.fromhex(key), sealed, aad)
        assert len(plain) % 64 == 0
        assert plain.rstrip(b" ").decode() == vector["expression"]


def check_rendezvous(vector: Vector) -> None:
    """The agents of the highest weights."""
    place = (b"portcullis/rendezvous/v1", vector["domain"].encode(), vector["type"].encode())
    weights = {
        sha256(joined(*place, agent.encode())).hexdigest(): agent for agent in vector["agents"]
    }
    best = sorted(weights, reverse=True)[: vector["replicas"]]
    assert vector["found"] == [weights[each] for each in best]


CHECKS: dict[str, Callable[[Vector], None]] = {
    "announcements": check_announcement,
    "carried": check_carried,
    "filters": check_filter,
    "rendezvous": check_rendezvous,
    "taken": check_taken,
}


def verify(document: dict[str, list[Vector]]) -> dict[str, int]:
    """Check every vector; returns how many there are of each group."""
    assert set(document) == set(CHECKS)
    for group, vectors in document.items():
        for vector in vectors:
            CHECKS[group](vector)
    return {group: len(vectors) for group, vectors in document.items()}


if __name__ == "__main__":
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    for group, number in verify(json.loads(file.read_text(encoding="utf-8"))).items():
        print(f"{group}: {number} right")
