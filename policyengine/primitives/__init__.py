"""Cryptographic building blocks and canonical bytes.

The only package of Portcullis that imports `cryptography`. Nothing here reads a
file, a clock or a socket; randomness that a caller may want to pin is an argument.
"""

from policyengine.primitives.canonical import b64, dumps, loads, pack, unb64, unpack
from policyengine.primitives.hashing import digest
from policyengine.primitives.hpke import (
    SealingKey,
    generate_hybrid_key,
    generate_sealing_key,
    open_sealed,
    seal_to,
)
from policyengine.primitives.kdf import derive
from policyengine.primitives.prf import prf
from policyengine.primitives.rand import SYSTEM_RANDOM, RandomSource, SeededRandom, SystemRandom
from policyengine.primitives.signatures import SigningKey, generate_signing_key, sign, verify

__all__ = [
    "SYSTEM_RANDOM",
    "RandomSource",
    "SealingKey",
    "SeededRandom",
    "SigningKey",
    "SystemRandom",
    "b64",
    "derive",
    "digest",
    "dumps",
    "generate_hybrid_key",
    "generate_sealing_key",
    "generate_signing_key",
    "loads",
    "open_sealed",
    "pack",
    "prf",
    "seal_to",
    "sign",
    "unb64",
    "unpack",
    "verify",
]
