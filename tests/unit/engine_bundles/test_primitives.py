"""The cryptographic building blocks: they open what fits and raise on everything else."""

import hashlib
import hmac

import pytest

from policyengine.errors import DecryptionError, InputError, SignatureError
from policyengine.primitives import (
    SYSTEM_RANDOM,
    SealingKey,
    SeededRandom,
    SigningKey,
    aead,
    derive,
    digest,
    generate_sealing_key,
    generate_signing_key,
    open_sealed,
    pack,
    prf,
    seal_to,
    sign,
    verify,
)

KEY = bytes(range(32))


def test_system_random_has_the_size_asked_for_and_does_not_repeat():
    assert len(SYSTEM_RANDOM.token(17)) == 17
    assert SYSTEM_RANDOM.token(32) != SYSTEM_RANDOM.token(32)
    assert SYSTEM_RANDOM.token(0) == b""


def test_seeded_random_is_one_stream_however_it_is_cut():
    whole = SeededRandom(b"seed").token(300)
    source = SeededRandom(b"seed")
    cut = b"".join(source.token(size) for size in (1, 0, 63, 64, 65, 107))
    assert cut == whole
    assert SeededRandom(b"tree").token(300) != whole


@pytest.mark.parametrize("seed", [b"", b"x" * 65])
def test_a_seed_out_of_range_is_refused(seed):
    with pytest.raises(InputError):
        SeededRandom(seed)


def test_prf_is_keyed_blake2b_over_packed_parts():
    expected = hashlib.blake2b(pack(b"a", b"bc"), key=KEY, digest_size=32).digest()
    assert prf(KEY, b"a", "bc") == expected
    assert prf(KEY, b"ab", "c") != expected
    assert prf(KEY[:-1] + b"x", b"a", "bc") != expected
    assert len(prf(KEY, size=64)) == 64
    assert prf(KEY, "a", size=16) != prf(KEY, "a")[:16]


@pytest.mark.parametrize(("key", "size"), [(b"k" * 15, 32), (b"k" * 65, 32), (KEY, 0), (KEY, 65)])
def test_prf_refuses_keys_and_sizes_out_of_range(key, size):
    with pytest.raises(InputError):
        prf(key, b"x", size=size)


def test_kdf_is_hkdf_sha256():
    extracted = hmac.new(b"\x00" * 32, KEY, hashlib.sha256).digest()
    expected = hmac.new(extracted, b"purpose\x01", hashlib.sha256).digest()
    assert derive(KEY, info=b"purpose") == expected
    assert derive(KEY, info=b"other") != expected
    assert derive(KEY, info=b"purpose", size=16) == expected[:16]
    assert len(derive(KEY, info=b"", size=8160)) == 8160


@pytest.mark.parametrize(("key", "size"), [(b"k" * 15, 32), (KEY, 0), (KEY, 8161)])
def test_kdf_refuses_keys_and_sizes_out_of_range(key, size):
    with pytest.raises(InputError):
        derive(key, info=b"", size=size)


def test_digest_is_sha256():
    assert digest(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_aead_opens_what_it_sealed():
    data = aead.seal(KEY, b"secret", aad=b"row 1", random=SeededRandom(b"n"))
    assert aead.open_(KEY, data, aad=b"row 1") == b"secret"
    assert data[1:13] == SeededRandom(b"n").token(12)
    assert b"secret" not in data


def test_aead_refuses_everything_else_alike():
    data = aead.seal(KEY, b"secret", aad=b"row 1", random=SYSTEM_RANDOM)
    flipped = [data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :] for i in range(len(data))]
    wrong = [*flipped, data[:-1], data[:28], b"", data + b"x"]
    messages = set()
    for item in wrong:
        with pytest.raises(DecryptionError) as caught:
            aead.open_(KEY, item, aad=b"row 1")
        messages.add(str(caught.value))
    for key, aad in ((KEY, b"row 2"), (KEY[::-1], b"row 1")):
        with pytest.raises(DecryptionError) as caught:
            aead.open_(key, data, aad=aad)
        messages.add(str(caught.value))
    assert len(messages) == 1


def test_aead_refuses_a_key_of_another_length():
    with pytest.raises(InputError):
        aead.seal(b"k" * 16, b"", aad=b"", random=SYSTEM_RANDOM)
    with pytest.raises(InputError):
        aead.open_(b"k" * 16, b"x" * 40, aad=b"")


def test_a_sealed_message_opens_for_its_recipient_and_context_only():
    key = generate_sealing_key()
    data = seal_to(key.public, b"secret", info=b"to alpha")
    assert open_sealed(key, data, info=b"to alpha") == b"secret"
    assert seal_to(key.public, b"secret", info=b"to alpha") != data
    for other, info in ((key, b"to beta"), (generate_sealing_key(), b"to alpha")):
        with pytest.raises(DecryptionError):
            open_sealed(other, data, info=info)


def test_a_damaged_sealed_message_never_opens():
    key = generate_sealing_key()
    data = seal_to(key.public, b"secret", info=b"")
    flipped = [data[:i] + bytes([data[i] ^ 128]) + data[i + 1 :] for i in range(len(data))]
    zero_point = data[:1] + bytes(32) + data[33:]
    for item in [*flipped, zero_point, b"", data[:48], data[:-1], data + b"\x00"]:
        with pytest.raises(DecryptionError):
            open_sealed(key, item, info=b"")


@pytest.mark.parametrize("public", [b"", b"k" * 31, b"k" * 33, bytes(32), b"\x01" + bytes(31)])
def test_sealing_to_no_key_is_refused(public):
    with pytest.raises(InputError):
        seal_to(public, b"secret", info=b"")


def test_a_signature_holds_for_its_key_context_and_payload_only():
    key, other = generate_signing_key(), generate_signing_key()
    signature = sign(key, b"purpose", b"payload")
    verify(key.public, signature, b"purpose", b"payload")
    for wrong in (
        (other.public, signature, b"purpose", b"payload"),
        (key.public, signature, b"purpos", b"epayload"),
        (key.public, signature, b"purpose", b"payloaD"),
        (key.public, signature[:-1], b"purpose", b"payload"),
        (key.public, b"", b"purpose", b"payload"),
        (key.public, bytes(64), b"purpose", b"payload"),
        (key.public[:-1], signature, b"purpose", b"payload"),
        (b"\xff" * 32, signature, b"purpose", b"payload"),
    ):
        with pytest.raises(SignatureError):
            verify(*wrong)


@pytest.mark.parametrize("make", [SealingKey, SigningKey])
def test_a_private_key_has_32_bytes_and_is_never_shown(make):
    with pytest.raises(InputError):
        make(b"k" * 31)
    key = make(KEY)
    assert repr(KEY) not in repr(key)
    assert "_parsed" not in repr(key)
    assert key == make(KEY)
    assert key != make(KEY[::-1])
    assert len(key.public) == 32


def test_generated_keys_are_fresh():
    assert generate_sealing_key() != generate_sealing_key()
    assert generate_signing_key() != generate_signing_key()
