"""RFC 9180, base mode, DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM, by hand.

Written from the RFC for the golden vectors, apart from the product's code and from the
HPKE of the library that the product uses; only X25519 and AES-GCM come from there.
"""

from __future__ import annotations

import hashlib
import hmac

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEM_SUITE = b"KEM" + (0x0020).to_bytes(2, "big")
SUITE = b"HPKE" + b"".join(number.to_bytes(2, "big") for number in (0x0020, 0x0001, 0x0002))


def extract(suite: bytes, salt: bytes, label: bytes, key: bytes) -> bytes:
    """LabeledExtract of section 4."""
    return hmac.new(salt or bytes(32), b"HPKE-v1" + suite + label + key, hashlib.sha256).digest()


def expand(suite: bytes, prk: bytes, label: bytes, info: bytes, size: int) -> bytes:
    """LabeledExpand of section 4; one block of HMAC is enough for every use here."""
    labelled = size.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info
    return hmac.new(prk, labelled + b"\x01", hashlib.sha256).digest()[:size]


def shared_secret(dh: bytes, encapsulated: bytes, recipient: bytes) -> bytes:
    """ExtractAndExpand of section 4.1."""
    prk = extract(KEM_SUITE, b"", b"eae_prk", dh)
    return expand(KEM_SUITE, prk, b"shared_secret", encapsulated + recipient, 32)


def key_and_nonce(secret: bytes, info: bytes) -> tuple[bytes, bytes]:
    """KeySchedule of section 5.1 in mode 0 without a pre-shared key."""
    context = (
        b"\x00" + extract(SUITE, b"", b"psk_id_hash", b"") + extract(SUITE, b"", b"info_hash", info)
    )
    prk = extract(SUITE, secret, b"secret", b"")
    return expand(SUITE, prk, b"key", context, 32), expand(SUITE, prk, b"base_nonce", context, 12)


def raw(key: X25519PrivateKey) -> bytes:
    """Return the public half of a key as 32 bytes."""
    return key.public_key().public_bytes_raw()


def seal(recipient: bytes, plaintext: bytes, info: bytes, ephemeral: bytes) -> bytes:
    """Seal with a chosen ephemeral key: encapsulated key, ciphertext and tag."""
    own = X25519PrivateKey.from_private_bytes(ephemeral)
    dh = own.exchange(X25519PublicKey.from_public_bytes(recipient))
    key, nonce = key_and_nonce(shared_secret(dh, raw(own), recipient), info)
    return raw(own) + AESGCM(key).encrypt(nonce, plaintext, b"")


def unseal(private: bytes, message: bytes, info: bytes) -> bytes:
    """Open encapsulated key, ciphertext and tag."""
    own = X25519PrivateKey.from_private_bytes(private)
    encapsulated, ciphertext = message[:32], message[32:]
    dh = own.exchange(X25519PublicKey.from_public_bytes(encapsulated))
    key, nonce = key_and_nonce(shared_secret(dh, encapsulated, raw(own)), info)
    return AESGCM(key).decrypt(nonce, ciphertext, b"")
