"""Sealing to one recipient: HPKE base mode (RFC 9180), classical or post-quantum hybrid.

| version | KEM | public, private key | encapsulated key |
|---|---|---|---|
| 0x01 | X25519 (DHKEM, HKDF-SHA256) | 32, 32 bytes | 32 bytes |
| 0x02 | ML-KEM-768 and X25519 (X-Wing, HPKE id 0x647a) | 1216, 96 bytes | 1120 bytes |

Both with HKDF-SHA256 and AES-256-GCM. A message is version (1 byte), encapsulated key,
ciphertext and tag. The length of a key says its suite, and a key opens messages of its own
suite only: nobody can talk a holder of a hybrid key down to X25519. The single-shot
interface of the library has no associated data, so the context goes into `info`. Base
mode says nothing about the sender: sign inside what you seal.

Source of the hybrid: draft-connolly-cfrg-xwing-kem; it stays secret while either half does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import shake_256
from typing import Final, Literal, TypeAlias

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import (
    AEAD,
    KDF,
    KEM,
    MLKEM768X25519PrivateKey,
    MLKEM768X25519PublicKey,
    Suite,
)

from policyengine.errors import DecryptionError, InputError
from policyengine.primitives.rand import SYSTEM_RANDOM, RandomSource

SealingSuite = Literal["x25519", "mlkem768-x25519"]

KEY_SIZE: Final = 32
"""Bytes of either half of an X25519 key."""
OVERHEAD: Final = 1 + 32 + 16
"""What sealing to an X25519 key adds to the plaintext."""
SEED_SIZE: Final = 32
"""Bytes of an X-Wing decapsulation key, from which a hybrid private key is expanded."""
HYBRID_PRIVATE_SIZE: Final = 64 + 32
"""ML-KEM-768 seed and X25519 private key."""
HYBRID_PUBLIC_SIZE: Final = 1184 + 32
"""ML-KEM-768 and X25519 public key."""
HYBRID_OVERHEAD: Final = 1 + 1088 + 32 + 16
"""What sealing to a hybrid key adds to the plaintext."""
PUBLIC_SIZES: Final = (KEY_SIZE, HYBRID_PUBLIC_SIZE)
"""The lengths that a public sealing key may have."""

_ML_SEED: Final = 64
_ML_PUBLIC: Final = 1184

_Private: TypeAlias = X25519PrivateKey | MLKEM768X25519PrivateKey
_Public: TypeAlias = X25519PublicKey | MLKEM768X25519PublicKey


@dataclass(frozen=True, slots=True)
class _Sealing:
    """One suite: its version byte and what it adds to a plaintext."""

    version: bytes
    overhead: int
    suite: Suite


_SUITES: Final[Mapping[SealingSuite, _Sealing]] = {
    "x25519": _Sealing(b"\x01", OVERHEAD, Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)),
    "mlkem768-x25519": _Sealing(
        b"\x02", HYBRID_OVERHEAD, Suite(KEM.MLKEM768_X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)
    ),
}


@dataclass(frozen=True)
class SealingKey:
    """A private key with its public half, of the suite that its length says.

    Args:
        private: 32 raw bytes (X25519, RFC 7748), or 96 of a hybrid key: the seed of
            ML-KEM-768 (FIPS 203) and an X25519 private key. Never shown by `repr`.

    Raises:
        InputError: `invalid` when the key has another length.
    """

    private: bytes = field(repr=False)
    public: bytes = field(init=False, compare=False)
    suite: SealingSuite = field(init=False, compare=False)
    _parsed: _Private = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if len(self.private) == KEY_SIZE:
            suite, parsed, public = _classical(self.private)
        elif len(self.private) == HYBRID_PRIVATE_SIZE:
            suite, parsed, public = _hybrid(self.private)
        else:
            raise InputError(
                "invalid",
                f"a private sealing key has {KEY_SIZE} bytes, or {HYBRID_PRIVATE_SIZE} when it"
                " is hybrid",
            )
        object.__setattr__(self, "suite", suite)
        object.__setattr__(self, "_parsed", parsed)
        object.__setattr__(self, "public", public)

    @classmethod
    def from_seed(cls, seed: bytes) -> SealingKey:
        """Expand a hybrid key from an X-Wing decapsulation key.

        Source: draft-connolly-cfrg-xwing-kem, section 5.2 (`expandDecapsulationKey`).

        Args:
            seed: 32 bytes.

        Raises:
            InputError: `invalid` when the seed has another length.
        """
        if len(seed) != SEED_SIZE:
            raise InputError("invalid", f"the seed of a hybrid key has {SEED_SIZE} bytes")
        return cls(shake_256(seed).digest(HYBRID_PRIVATE_SIZE))

    def _decrypt(self, data: bytes, info: bytes) -> bytes:
        return _SUITES[self.suite].suite.decrypt(data, self._parsed, info=info)


def generate_sealing_key() -> SealingKey:
    """Make a fresh X25519 key from the system's generator."""
    return SealingKey(X25519PrivateKey.generate().private_bytes_raw())


def generate_hybrid_key(*, random: RandomSource = SYSTEM_RANDOM) -> SealingKey:
    """Make a fresh hybrid key.

    Args:
        random: source of its 32-byte seed.
    """
    return SealingKey.from_seed(random.token(SEED_SIZE))


def suite_of(public: bytes) -> SealingSuite:
    """Tell a public key's suite by its length.

    Raises:
        InputError: `invalid` for a length that no public sealing key has.
    """
    if len(public) == KEY_SIZE:
        return "x25519"
    if len(public) == HYBRID_PUBLIC_SIZE:
        return "mlkem768-x25519"
    raise InputError(
        "invalid",
        f"a public sealing key has {KEY_SIZE} bytes, or {HYBRID_PUBLIC_SIZE} when it is hybrid",
    )


def seal_to(public: bytes, plaintext: bytes, *, info: bytes) -> bytes:
    """Encrypt for the holder of one private key.

    Args:
        public: the recipient's public key, 32 raw bytes of X25519 or 1216 of a hybrid key.
        plaintext: what to hide.
        info: purpose and recipient; must be the same when it is opened.

    Returns:
        `OVERHEAD` bytes more than the plaintext, or `HYBRID_OVERHEAD` for a hybrid key.

    Raises:
        InputError: `invalid` when the public key is not one.
    """
    sealing = _SUITES[suite_of(public)]
    try:
        recipient = _public_key(public)
        return sealing.version + sealing.suite.encrypt(plaintext, recipient, info=info)
    except ValueError:  # a point of small order, or coefficients that are not reduced
        raise InputError("invalid", "not a usable public sealing key") from None


def open_sealed(key: SealingKey, data: bytes, *, info: bytes) -> bytes:
    """Decrypt what `seal_to` made for this key and this context.

    Raises:
        DecryptionError: anything does not fit; all causes look alike.
    """
    sealing = _SUITES[key.suite]
    # INVARIANT: a key opens messages of its own suite only
    if len(data) < sealing.overhead or data[:1] != sealing.version:
        raise DecryptionError("the sealed message does not open")
    try:
        return key._decrypt(data[1:], info)
    except (InvalidTag, ValueError):
        raise DecryptionError("the sealed message does not open") from None


def _classical(private: bytes) -> tuple[SealingSuite, _Private, bytes]:
    parsed = X25519PrivateKey.from_private_bytes(private)
    return "x25519", parsed, parsed.public_key().public_bytes_raw()


def _hybrid(private: bytes) -> tuple[SealingSuite, _Private, bytes]:
    lattice = MLKEM768PrivateKey.from_seed_bytes(private[:_ML_SEED])
    curve = X25519PrivateKey.from_private_bytes(private[_ML_SEED:])
    public = lattice.public_key().public_bytes_raw() + curve.public_key().public_bytes_raw()
    return "mlkem768-x25519", MLKEM768X25519PrivateKey(lattice, curve), public


@lru_cache(maxsize=4096)
def _public_key(public: bytes) -> _Public:
    if len(public) == KEY_SIZE:
        return X25519PublicKey.from_public_bytes(public)
    return MLKEM768X25519PublicKey(
        MLKEM768PublicKey.from_public_bytes(public[:_ML_PUBLIC]),
        X25519PublicKey.from_public_bytes(public[_ML_PUBLIC:]),
    )
