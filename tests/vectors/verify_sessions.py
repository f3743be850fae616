"""Check the golden vectors of sessions without any of the product's code.

    python tests/vectors/verify_sessions.py [FILE]

Written anew from the documented layout. Prints how many are right; ends with an
AssertionError, or the library's own refusal, if one differs.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

if __package__:
    from tests.vectors import hpke_reference
    from tests.vectors.verify import b64, canonical, check_signature, joined, split
else:
    import hpke_reference
    from verify import b64, canonical, check_signature, joined, split

FILE = Path(__file__).with_name("sessions.json")


def check(vector: dict[str, Any]) -> None:
    """One delivery: the sealed session, its signature, then the ciphertext under its key."""
    message, handle = bytes.fromhex(vector["message"]), vector["handle"].encode()
    assert message[:1] == b"\x80"
    sealed, ciphertext = split(message[1:])
    assert sealed[:1] == b"\x01"
    private = bytes.fromhex(vector["recipient_private"])
    inner = hpke_reference.unseal(private, sealed[1:], b"portcullis/session/v1|" + handle)
    signer, body, signature = split(inner)
    assert signer.decode() == vector["agent"]
    public = bytes.fromhex(vector["agent_public"])
    check_signature(public, signature, b"portcullis/session/v1", joined(handle, body))
    session = json.loads(body)
    assert canonical(session).encode() == body
    key = b64(session.pop("key"))
    assert key.hex() == vector["session_key"]
    assert session == {name: vector[name] for name in ("agent", "domain", "epoch")}
    aad = joined(
        b"portcullis/in-session/v1",
        hashlib.sha256(sealed).digest(),
        vector["agent"].encode(),
        handle,
        vector["domain"].encode(),
        vector["epoch"].to_bytes(8, "big"),
    )
    assert ciphertext[:1] == b"\x01"
    plain = AESGCM(key).decrypt(ciphertext[1:13], ciphertext[13:], b"\x01" + aad)
    assert plain == canonical(vector["body"]).encode()


def verify(vectors: list[dict[str, Any]]) -> int:
    """Check every vector; return how many there are."""
    assert vectors
    for vector in vectors:
        check(vector)
    sealed = [split(bytes.fromhex(vector["message"])[1:])[0] for vector in vectors]
    assert len({vector["session_key"] for vector in vectors}) == len(set(sealed))
    return len(vectors)


def main() -> None:
    """Check the file that is named, or the one beside this program."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    count = verify(json.loads(path.read_text(encoding="utf-8")))
    sys.stdout.write(f"sessions: {count} right\n")


if __name__ == "__main__":
    main()
