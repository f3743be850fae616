"""Check the golden vectors of the audit's tree without any of the product's code.

    python tests/vectors/verify_merkle.py [FILE]

Trees and proofs by the recursive definitions of RFC 6962 (sections 2.1, 2.1.1 and 2.1.2), signed
notes by hand. Prints one line a group; ends with an AssertionError if a vector differs.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

Vector = dict[str, Any]
FILE = Path(__file__).with_name("merkle.json")
# Certificate Transparency's own test publishes these roots for 1 to 8 leaves.
PUBLISHED = {
    1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    3: "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    4: "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    5: "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    6: "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    7: "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
}


def sha(data: bytes) -> bytes:
    """SHA-256."""
    return hashlib.sha256(data).digest()


def cut(count: int) -> int:
    """The largest power of two below `count`."""
    power = 1
    while power * 2 < count:
        power *= 2
    return power


def mth(data: list[bytes]) -> bytes:
    """MTH of RFC 6962."""
    if not data:
        return sha(b"")
    if len(data) == 1:
        return sha(b"\x00" + data[0])
    k = cut(len(data))
    return sha(b"\x01" + mth(data[:k]) + mth(data[k:]))


def path(m: int, data: list[bytes]) -> list[bytes]:
    """PATH of RFC 6962."""
    if len(data) == 1:
        return []
    k = cut(len(data))
    if m < k:
        return [*path(m, data[:k]), mth(data[k:])]
    return [*path(m - k, data[k:]), mth(data[:k])]


def subproof(m: int, data: list[bytes], whole: bool) -> list[bytes]:
    """SUBPROOF of RFC 6962."""
    if m == len(data):
        return [] if whole else [mth(data)]
    k = cut(len(data))
    if m <= k:
        return [*subproof(m, data[:k], whole), mth(data[k:])]
    return [*subproof(m - k, data[k:], False), mth(data[:k])]


def leaves(vector: Vector) -> list[bytes]:
    """What the leaves hold."""
    return [bytes.fromhex(leaf) for leaf in vector["leaves"]]


def check_root(vector: Vector) -> None:
    """A root, by the definition and as published."""
    data = leaves(vector)
    assert mth(data).hex() == vector["root"]
    assert vector["root"] == PUBLISHED.get(len(data), vector["root"])


def check_inclusion(vector: Vector) -> None:
    """An audit path."""
    expected = path(vector["index"], leaves(vector))
    assert [part.hex() for part in expected] == vector["path"]


def check_consistency(vector: Vector) -> None:
    """A proof of consistency."""
    expected = subproof(vector["old"], leaves(vector), True)
    assert [part.hex() for part in expected] == vector["path"]


def check_checkpoint(vector: Vector) -> None:
    """A signed note: its text to the letter, its key's hash and its signature."""
    name, key_hash, encoded = vector["key"].split("+", 2)
    raw = base64.b64decode(encoded)
    assert raw[:1] == b"\x01"
    assert sha(name.encode() + b"\n" + raw)[:4].hex() == key_hash
    data = leaves(vector)
    root = base64.b64encode(mth(data)).decode()
    text = f"{name}\n{len(data)}\n{root}\ntime {vector['time']}\n"
    head, signature = vector["note"].rsplit(" ", 1)
    assert head == f"{text}\n\u2014 {name}"
    signed = base64.b64decode(signature)
    assert signed[:4].hex() == key_hash
    Ed25519PublicKey.from_public_bytes(raw[1:]).verify(signed[4:], text.encode())


CHECKS = {
    "roots": check_root,
    "inclusion": check_inclusion,
    "consistency": check_consistency,
    "checkpoints": check_checkpoint,
}


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
    for group, count in verify(json.loads(file.read_text(encoding="utf-8"))).items():
        sys.stdout.write(f"{group}: {count} right\n")


if __name__ == "__main__":
    main()
