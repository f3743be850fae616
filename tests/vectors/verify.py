"""Check the golden vectors without any of the product's code.

    python tests/vectors/verify.py [FILE]

Everything is written anew from the RFCs and the documented layouts; canonical JSON is
written by hand. Prints one line a group; ends with an AssertionError if one differs.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

if __package__:
    from tests.vectors import hpke_reference
else:
    import hpke_reference

Vector = dict[str, Any]
FILE = Path(__file__).with_name("protocol.json")


def joined(*fields: bytes) -> bytes:
    """Length-prefixed fields."""
    return b"".join(len(field).to_bytes(4, "big") + field for field in fields)


def split(data: bytes) -> list[bytes]:
    """The fields of length-prefixed bytes."""
    fields = []
    while data:
        size = int.from_bytes(data[:4], "big")
        assert len(data) >= 4 + size
        fields.append(data[4 : 4 + size])
        data = data[4 + size :]
    return fields


def canonical(value: Any) -> str:
    """Canonical JSON, by hand."""
    if isinstance(value, dict):
        members = (f"{canonical(key)}:{canonical(value[key])}" for key in sorted(value))
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, str):
        return '"' + "".join(map(escaped, value)) + '"'
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return repr(value)


SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def escaped(character: str) -> str:
    """One character of a JSON string."""
    if character in SHORT:
        return SHORT[character]
    return f"\\u{ord(character):04x}" if ord(character) < 32 else character


def b64(text: str) -> bytes:
    """Unpadded URL-safe base64."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def prf(key: bytes, parts: list[bytes], size: int) -> bytes:
    """Keyed BLAKE2b over length-prefixed parts."""
    return hashlib.blake2b(joined(*parts), key=key, digest_size=size).digest()


def hkdf(key: bytes, info: bytes, size: int) -> bytes:
    """RFC 5869 with SHA-256 and no salt."""
    prk = hmac.new(bytes(32), key, hashlib.sha256).digest()
    block, out, count = b"", b"", 1
    while len(out) < size:
        block = hmac.new(prk, block + info + bytes([count]), hashlib.sha256).digest()
        out, count = out + block, count + 1
    return out[:size]


def check_signature(public: bytes, signature: bytes, context: bytes, payload: bytes) -> None:
    """Ed25519 over the length-prefixed context and payload."""
    Ed25519PublicKey.from_public_bytes(public).verify(signature, joined(context, payload))


def check_canonical(vector: Vector) -> None:
    """One value, one text."""
    text = bytes.fromhex(vector["bytes"])
    assert canonical(json.loads(text)).encode() == text
    assert canonical(vector["value"]).encode() == text


def check_pack(vector: Vector) -> None:
    """Length-prefixed fields."""
    assert joined(*map(bytes.fromhex, vector["fields"])).hex() == vector["bytes"]


def check_prf(vector: Vector) -> None:
    """Keyed BLAKE2b."""
    parts = [bytes.fromhex(part) for part in vector["parts"]]
    assert prf(bytes.fromhex(vector["key"]), parts, vector["size"]).hex() == vector["output"]


def check_tag(vector: Vector) -> None:
    """Routing tags."""
    parts = [b"portcullis/tag/v1", vector["token"].encode()]
    assert prf(bytes.fromhex(vector["key"]), parts, 16).hex() == vector["tag"]


def check_kdf(vector: Vector) -> None:
    """HKDF."""
    key, info = bytes.fromhex(vector["key"]), bytes.fromhex(vector["info"])
    assert hkdf(key, info, vector["size"]).hex() == vector["output"]


def check_aead(vector: Vector) -> None:
    """Version, nonce, AES-256-GCM with the version before the associated data."""
    key, nonce, plaintext, aad = (
        bytes.fromhex(vector[name]) for name in ("key", "nonce", "plaintext", "aad")
    )
    sealed = b"\x01" + nonce + AESGCM(key).encrypt(nonce, plaintext, b"\x01" + aad)
    assert sealed.hex() == vector["sealed"]


def check_signed(vector: Vector) -> None:
    """Ed25519 over context and payload; the signature is deterministic."""
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(vector["private"]))
    context, payload = bytes.fromhex(vector["context"]), bytes.fromhex(vector["payload"])
    assert key.public_key().public_bytes_raw().hex() == vector["public"]
    assert key.sign(joined(context, payload)).hex() == vector["signature"]


def opened(vector: Vector, message: bytes, info: bytes) -> bytes:
    """Open a sealed message: the version, then HPKE."""
    assert message[:1] == b"\x01"
    return hpke_reference.unseal(bytes.fromhex(vector["recipient_private"]), message[1:], info)


def check_wrap(vector: Vector) -> None:
    """A key wrap binds group, epoch and audience."""
    info = joined(
        b"portcullis/wrap/v1",
        vector["group"].encode(),
        vector["epoch"].to_bytes(8, "big"),
        vector["audience"].encode(),
    )
    assert opened(vector, bytes.fromhex(vector["sealed"]), info).hex() == vector["key"]


def check_bundle(vector: Vector) -> None:
    """A bundle: seal, signature over the exact header, digests of the parts."""
    address = f"{vector['audience']}|{vector['domain']}".encode()
    purpose, written, sealed = split(bytes.fromhex(vector["message"]))
    assert (purpose, written) == (b"portcullis/bundle/v1", address)
    header, signature, *parts = split(opened(vector, sealed, purpose + b"|" + address))
    check_signature(bytes.fromhex(vector["policy_public"]), signature, purpose, header)
    assert signature.hex() == vector["signature"]
    assert header.hex() == vector["header"]
    assert hashlib.sha256(header).hexdigest() == vector["digest"]
    fields = json.loads(header)
    assert canonical(fields).encode() == header
    assert (fields["audience"], fields["domain"]) == (vector["audience"], vector["domain"])
    named = [(part["sha256"], part["size"]) for part in fields["parts"]]
    assert named == [(hashlib.sha256(part).hexdigest(), len(part)) for part in parts]
    content: dict[str, Any] = {}
    for part in parts:
        assert canonical(json.loads(part)).encode() == part
        content |= json.loads(part)
    assert content == vector["content"]


def check_message(vector: Vector) -> None:
    """A signed and sealed message between two parties."""
    purpose, address = vector["purpose"].encode(), vector["address"].encode()
    inner = opened(vector, bytes.fromhex(vector["message"]), purpose + b"|" + address)
    signer, body, signature = split(inner)
    assert signer.decode() == vector["signer"]
    check_signature(
        bytes.fromhex(vector["signer_public"]), signature, purpose, joined(address, body)
    )
    assert json.loads(body) == vector["body"]
    assert canonical(vector["body"]).encode() == body


def check_receipt(vector: Vector) -> None:
    """A receipt's signature covers the canonical body."""
    receipt = vector["receipt"]
    assert receipt["format"] == "portcullis/receipt/v1"
    check_signature(
        bytes.fromhex(vector["public"]),
        b64(receipt["signature"]),
        b"portcullis/receipt/v1",
        canonical(receipt["body"]).encode(),
    )


CHECKS: dict[str, Callable[[Vector], None]] = {
    "canonical": check_canonical,
    "pack": check_pack,
    "prf": check_prf,
    "tags": check_tag,
    "kdf": check_kdf,
    "aead": check_aead,
    "signatures": check_signed,
    "wraps": check_wrap,
    "bundles": check_bundle,
    "messages": check_message,
    "receipts": check_receipt,
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
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    for group, count in verify(json.loads(path.read_text(encoding="utf-8"))).items():
        sys.stdout.write(f"{group}: {count} right\n")


if __name__ == "__main__":
    main()
