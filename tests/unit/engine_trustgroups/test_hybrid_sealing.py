"""Hybrid sealing, checked against the published X-Wing vector and a second HPKE by hand."""

from __future__ import annotations

import hmac
from hashlib import sha3_256, sha256

import pytest
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from policyengine.errors import DecryptionError, InputError
from policyengine.primitives import (
    SealingKey,
    SeededRandom,
    generate_hybrid_key,
    generate_sealing_key,
    open_sealed,
    seal_to,
)
from policyengine.primitives.hpke import (
    HYBRID_OVERHEAD,
    HYBRID_PRIVATE_SIZE,
    HYBRID_PUBLIC_SIZE,
    OVERHEAD,
    suite_of,
)

# draft-connolly-cfrg-xwing-kem, appendix C, first vector
SEED = bytes.fromhex("7f9c2ba4e88f827d616045507605853ed73b8093f6efbc88eb1a6eacfa66ef26")
SECRET = bytes.fromhex("d2df0522128f09dd8e2c92b1e905c793d8f57a54c3da25861f10bf4ca613e384")
ENCAPSULATED = bytes.fromhex(
    "b83aa828d4d62b9a83ceffe1d3d3bb1ef31264643c070c5798927e41fb07914a273f8f96e7826cd5375a283d"
    "7da885304c5de0516a0f0654243dc5b97f8bfeb831f68251219aabdd723bc6512041acbaef8af44265524942"
    "b902e68ffd23221cda70b1b55d776a92d1143ea3a0c475f63ee6890157c7116dae3f62bf72f60acd2bb8cc31"
    "ce2ba0de364f52b8ed38c79d719715963a5dd3842d8e8b43ab704e4759b5327bf027c63c8fa857c4908d5a8a"
    "7b88ac7f2be394d93c3706ddd4e698cc6ce370101f4d0213254238b4a2e8821b6e414a1cf20f6c1244b69904"
    "6f5a01caa0a1a55516300b40d2048c77cc73afba79afeea9d2c0118bdf2adb8870dc328c5516cc45b1a20581"
    "41039e2c90a110a9e16b318dfb53bd49a126d6b73f215787517b8917cc01cabd107d06859854ee8b4f9861c2"
    "26d3764c87339ab16c3667d2f49384e55456dd40414b70a6af841585f4c90c68725d57704ee8ee7ce6e2f9be"
    "582dbee985e038ffc346ebfb4e22158b6c84374a9ab4a44e1f91de5aac5197f89bc5e5442f51f9a5937b102b"
    "a3beaebf6e1c58380a4a5fedce4a4e5026f88f528f59ffd2db41752b3a3d90efabe463899b7d40870c530c88"
    "41e8712b733668ed033adbfafb2d49d37a44d4064e5863eb0af0a08d47b3cc888373bc05f7a33b841bc2587c"
    "57eb69554e8a3767b7506917b6b70498727f16eac1a36ec8d8cfaf751549f2277db277e8a55a9a5106b23a02"
    "06b4721fa9b3048552c5bd5b594d6e247f38c18c591aea7f56249c72ce7b117afcc3a8621582f9cf71787e18"
    "3dee09367976e98409ad9217a497df888042384d7707a6b78f5f7fb8409e3b535175373461b776002d799cba"
    "d62860be70573ecbe13b246e0da7e93a52168e0fb6a9756b895ef7f0147a0dc81bfa644b088a9228160c0f9a"
    "cf1379a2941cd28c06ebc80e44e17aa2f8177010afd78a97ce0868d1629ebb294c5151812c583daeb8868522"
    "0f4da9118112e07041fcc24d5564a99fdbde28869fe0722387d7a9a4d16e1cc8555917e09944aa5ebaaaec2c"
    "f62693afad42a3f518fce67d273cc6c9fb5472b380e8573ec7de06a3ba2fd5f931d725b493026cb0acbd3fe6"
    "2d00e4c790d965d7a03a3c0b4222ba8c2a9a16e2ac658f572ae0e746eafc4feba023576f08942278a041fb82"
    "a70a595d5bacbf297ce2029898a71e5c3b0d1c6228b485b1ade509b35fbca7eca97b2132e7cb6bc465375146"
    "b7dceac969308ac0c2ac89e7863eb8943015b24314cafb9c7c0e85fe543d56658c213632599efabfc1ec49dd"
    "8c88547bb2cc40c9d38cbd3099b4547840560531d0188cd1e9c23a0ebee0a03d5577d66b1d2bcb4baaf21cc7"
    "fef1e03806ca96299df0dfbc56e1b2b43e4fc20c37f834c4af62127e7dae86c3c25a2f696ac8b589dec71d59"
    "5bfbe94b5ed4bc07d800b330796fda89edb77be0294136139354eb8cd37591578f9c600dd9be8ec6219fdd50"
    "7adf3397ed4d68707b8d13b24ce4cd8fb22851bfe9d632407f31ed6f7cb1600de56f17576740ce2a32fc5145"
    "030145cfb97e63e0e41d354274a079d3e6fb2e15"
)
PUBLIC_BEGINS = bytes.fromhex("e2236b35a8c24b39b10aa1323a96a919")
PUBLIC_ENDS = bytes.fromhex("859edb06eff389b27dce59844570216223593d4ba32d9abac8cd049040ef6534")

KEM_ID, LABEL = 0x647A, rb"\.//^" + b"\\"
KEY = SealingKey.from_seed(SEED)
INFO = b"purpose|agent:alpha"


def shared_secret(key: SealingKey, encapsulated: bytes) -> bytes:
    """X-Wing's decapsulation from its parts (section 5.4 of the draft)."""
    lattice = MLKEM768PrivateKey.from_seed_bytes(key.private[:64])
    curve = X25519PrivateKey.from_private_bytes(key.private[64:])
    theirs = encapsulated[1088:]
    exchanged = curve.exchange(X25519PublicKey.from_public_bytes(theirs))
    mine = curve.public_key().public_bytes_raw()
    parts = (lattice.decapsulate(encapsulated[:1088]), exchanged, theirs, mine, LABEL)
    return sha3_256(b"".join(parts)).digest()


def schedule(secret: bytes, info: bytes) -> tuple[bytes, bytes]:
    """Key and nonce of HPKE's base mode (RFC 9180, section 5.1) with HKDF-SHA256."""
    suite = b"HPKE" + KEM_ID.to_bytes(2, "big") + b"\x00\x01" + b"\x00\x02"

    def extract(salt: bytes, label: bytes, material: bytes) -> bytes:
        data = b"HPKE-v1" + suite + label + material
        return hmac.new(salt or bytes(32), data, sha256).digest()

    def expand(key: bytes, label: bytes, context: bytes, size: int) -> bytes:
        data = size.to_bytes(2, "big") + b"HPKE-v1" + suite + label + context
        return hmac.new(key, data + b"\x01", sha256).digest()[:size]

    context = b"\x00" + extract(b"", b"psk_id_hash", b"") + extract(b"", b"info_hash", info)
    prk = extract(secret, b"secret", b"")
    return expand(prk, b"key", context, 32), expand(prk, b"base_nonce", context, 12)


def test_a_key_from_a_seed_is_the_published_one() -> None:
    assert KEY.public.startswith(PUBLIC_BEGINS)
    assert KEY.public.endswith(PUBLIC_ENDS)
    assert len(KEY.public) == HYBRID_PUBLIC_SIZE
    assert shared_secret(KEY, ENCAPSULATED) == SECRET


def test_a_message_over_the_published_secret_opens() -> None:
    secret, nonce = schedule(SECRET, INFO)
    message = b"\x02" + ENCAPSULATED + AESGCM(secret).encrypt(nonce, b"epoch key", b"")
    assert open_sealed(KEY, message, info=INFO) == b"epoch key"


def test_what_is_sealed_opens_by_hand() -> None:
    message = seal_to(KEY.public, b"epoch key", info=INFO)
    assert message[0] == 2
    assert len(message) == HYBRID_OVERHEAD + len(b"epoch key")
    secret, nonce = schedule(shared_secret(KEY, message[1:1121]), INFO)
    assert AESGCM(secret).decrypt(nonce, message[1121:], b"") == b"epoch key"


def test_a_hybrid_message_opens_for_its_recipient_and_context_only() -> None:
    message = seal_to(KEY.public, b"secret", info=INFO)
    assert open_sealed(KEY, message, info=INFO) == b"secret"
    assert seal_to(KEY.public, b"secret", info=INFO) != message
    for other, info in ((KEY, b"purpose|agent:beta"), (generate_hybrid_key(), INFO)):
        with pytest.raises(DecryptionError):
            open_sealed(other, message, info=info)


def test_a_damaged_hybrid_message_never_opens() -> None:
    message = seal_to(KEY.public, b"secret", info=INFO)
    places = [0, 1, 500, 1088, 1089, 1120, 1121, len(message) - 1]
    flipped = [message[:at] + bytes([message[at] ^ 128]) + message[at + 1 :] for at in places]
    zero_point = message[:1089] + bytes(32) + message[1121:]
    for item in [*flipped, zero_point, b"", message[:1136], message[:-1], message + b"\x00"]:
        with pytest.raises(DecryptionError):
            open_sealed(KEY, item, info=INFO)


def test_nobody_is_talked_down_to_the_classical_suite() -> None:
    half = SealingKey(KEY.private[64:])
    assert half.public == KEY.public[1184:]
    classical = seal_to(half.public, b"secret", info=INFO)
    hybrid = seal_to(KEY.public, b"secret", info=INFO)
    for key, message in (
        (KEY, classical),
        (half, hybrid),
        (KEY, b"\x02" + classical[1:]),
        (half, b"\x01" + hybrid[1:]),
        (KEY, b"\x01" + hybrid[1:]),
    ):
        with pytest.raises(DecryptionError):
            open_sealed(key, message, info=INFO)


def test_the_length_of_a_key_says_its_suite() -> None:
    assert (KEY.suite, suite_of(KEY.public)) == ("mlkem768-x25519", "mlkem768-x25519")
    classical = generate_sealing_key()
    assert (classical.suite, suite_of(classical.public)) == ("x25519", "x25519")
    assert len(seal_to(classical.public, b"", info=b"")) == OVERHEAD
    assert len(KEY.private) == HYBRID_PRIVATE_SIZE
    assert SealingKey(KEY.private) == KEY
    assert repr(KEY.private) not in repr(KEY)
    assert "_parsed" not in repr(KEY)


@pytest.mark.parametrize("size", [0, 31, 33, 64, 95, 97, 1216])
def test_a_private_key_of_another_length_is_none(size: int) -> None:
    with pytest.raises(InputError):
        SealingKey(b"k" * size)


@pytest.mark.parametrize("size", [0, 31, 96])
def test_a_seed_of_another_length_is_none(size: int) -> None:
    with pytest.raises(InputError):
        SealingKey.from_seed(b"k" * size)


@pytest.mark.parametrize(
    "public",
    [
        KEY.public[:-1],
        KEY.public + b"\x00",
        KEY.public[:1184] + bytes(32),
        b"\xff" * 1184 + KEY.public[1184:],
    ],
)
def test_sealing_to_no_hybrid_key_is_refused(public: bytes) -> None:
    with pytest.raises(InputError):
        seal_to(public, b"secret", info=b"")


def test_hybrid_keys_are_fresh_unless_the_source_is_pinned() -> None:
    assert generate_hybrid_key() != generate_hybrid_key()
    pinned = generate_hybrid_key(random=SeededRandom(b"seed"))
    assert pinned == generate_hybrid_key(random=SeededRandom(b"seed"))
