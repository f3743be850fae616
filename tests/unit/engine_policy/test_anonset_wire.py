"""Bytes of encodings are read strictly, one by one and in bulk."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from policyengine.anonset import Encoder, Parameters, SubjectMatrix, match, size_for
from policyengine.anonset.wire import HEADER_BYTES, SALT, encode_tokens, header
from policyengine.errors import DecodeError, InputError
from policyengine.primitives.rand import SeededRandom

KEY = b"k" * 32
BLOOM = size_for(4)  # m = 647: the last byte of a filter has one bit beyond m
TOKENS = size_for(4, encoding="tokens")
HELD = ["a==1", "b==2"]


def made(parameters: Parameters) -> tuple[bytes, bytes]:
    encoder = Encoder(KEY, parameters, random=SeededRandom(b"wire"))
    return encoder.encode_policy(["a==1"]), encoder.encode_subject(HELD)


def refuses_policy(policy: bytes, parameters: Parameters) -> None:
    _, subject = made(parameters)
    with pytest.raises(DecodeError):
        match(policy, subject, parameters)
    with pytest.raises(DecodeError):
        SubjectMatrix([subject], parameters).authorised(policy)


def refuses_subject(subject: bytes, parameters: Parameters) -> None:
    policy, good = made(parameters)
    with pytest.raises(DecodeError):
        match(policy, subject, parameters)
    with pytest.raises(DecodeError):
        SubjectMatrix([good, subject], parameters)
    matrix = SubjectMatrix([good], parameters)
    with pytest.raises(DecodeError):
        matrix.append(subject)
    assert len(matrix) == 1


DAMAGE: list[Callable[[bytes], bytes]] = [
    lambda data: b"",
    lambda data: data[:-1],
    lambda data: data + b"\0",
    lambda data: b"\2" + data[1:],
    lambda data: data[:1] + b"\7" + data[2:],
    *(
        lambda data, at=at: data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        for at in range(2, HEADER_BYTES)
    ),
]


@pytest.mark.parametrize("parameters", [BLOOM, TOKENS])
@pytest.mark.parametrize("damage", DAMAGE)
def test_version_kind_size_and_length_are_exact(
    parameters: Parameters, damage: Callable[[bytes], bytes]
) -> None:
    policy, subject = made(parameters)
    refuses_policy(damage(policy), parameters)
    refuses_subject(damage(subject), parameters)


@pytest.mark.parametrize("parameters", [BLOOM, TOKENS])
def test_policies_and_subjects_are_not_exchanged(parameters: Parameters) -> None:
    policy, subject = made(parameters)
    refuses_policy(subject, parameters)
    refuses_subject(policy, parameters)


def test_encodings_of_another_kind_or_size_are_refused() -> None:
    refuses_policy(made(TOKENS)[0], BLOOM)
    refuses_subject(made(size_for(5))[1], BLOOM)
    refuses_subject(made(size_for(5, encoding="tokens"))[1], TOKENS)


def test_a_filter_of_ones_would_match_everything_and_is_refused() -> None:
    policy, subject = made(BLOOM)
    size = BLOOM.filter_bytes
    ones = ((1 << BLOOM.m) - 1).to_bytes(size, "little")
    start = header("subject", BLOOM) + subject[HEADER_BYTES : HEADER_BYTES + SALT]
    filters = subject[HEADER_BYTES + SALT :]
    for number in range(BLOOM.n + 1):
        forged = filters[: number * size] + ones + filters[(number + 1) * size :]
        refuses_subject(start + forged, BLOOM)
    refuses_policy(header("policy", BLOOM) + ones + policy[HEADER_BYTES + size :], BLOOM)
    refuses_policy(header("policy", BLOOM) + ones + ones, BLOOM)


def test_a_filter_that_is_a_little_too_full_is_refused_too() -> None:
    _, subject = made(BLOOM)
    size = BLOOM.filter_bytes
    three_quarters = sum(1 << bit for bit in range(BLOOM.m) if bit % 4).to_bytes(size, "little")
    at = HEADER_BYTES + SALT
    refuses_subject(subject[:at] + three_quarters + subject[at + size :], BLOOM)


def test_honest_filters_are_never_too_full() -> None:
    encoder = Encoder(KEY, BLOOM, random=SeededRandom(b"honest"))
    subjects = encoder.encode_subjects([[f"t{number}", "x"] for number in range(1000)])
    assert len(SubjectMatrix(subjects, BLOOM)) == 1000


def test_bits_beyond_the_filter_are_refused() -> None:
    assert BLOOM.m % 8 == 7
    policy, subject = made(BLOOM)
    refuses_policy(policy[:-1] + bytes([policy[-1] | 0x80]), BLOOM)
    at = HEADER_BYTES + BLOOM.filter_bytes - 1
    refuses_policy(policy[:at] + bytes([policy[at] | 0x80]) + policy[at + 1 :], BLOOM)
    refuses_subject(subject[:-1] + bytes([subject[-1] | 0x80]), BLOOM)


def test_a_mask_that_is_not_part_of_the_policy_is_refused() -> None:
    policy, _ = made(BLOOM)
    size = BLOOM.filter_bytes
    swapped = policy[HEADER_BYTES + size :] + policy[HEADER_BYTES : HEADER_BYTES + size]
    refuses_policy(policy[:HEADER_BYTES] + swapped, BLOOM)
    attributes = int.from_bytes(policy[HEADER_BYTES : HEADER_BYTES + size], "little")
    stray = next(bit for bit in range(BLOOM.m) if not attributes >> bit & 1)
    mask = int.from_bytes(policy[-size:], "little") | 1 << stray
    refuses_policy(policy[:-size] + mask.to_bytes(size, "little"), BLOOM)


def test_tokens_must_ascend_and_stand_once() -> None:
    policy, subject = made(TOKENS)
    start, body = subject[:HEADER_BYTES], subject[HEADER_BYTES:]
    refuses_subject(start + body[8:] + body[:8], TOKENS)
    refuses_subject(start + body[:8] * TOKENS.n, TOKENS)
    doubled = (2).to_bytes(2, "big") + policy[-8:] * 2
    refuses_policy(policy[:HEADER_BYTES] + doubled, TOKENS)


def test_more_policy_tokens_than_a_subject_can_have_are_refused() -> None:
    refuses_policy(encode_tokens("policy", range(5), TOKENS), TOKENS)


@pytest.mark.parametrize("parameters", [BLOOM, TOKENS])
def test_conjunctions_that_do_not_fit_are_refused(parameters: Parameters) -> None:
    encoder = Encoder(KEY, parameters, random=SeededRandom(b"wire"))
    for encode in (encoder.encode_subject, encoder.encode_policy):
        with pytest.raises(InputError) as caught:
            encode([f"t{number}" for number in range(5)])
        assert caught.value.kind == "too-large"
        assert "expected at most 4" in caught.value.message


@pytest.mark.parametrize("parameters", [BLOOM, TOKENS])
def test_slots_that_do_not_exist_cannot_be_emptied(parameters: Parameters) -> None:
    matrix = SubjectMatrix([], parameters)
    policy, subject = made(parameters)
    assert list(matrix.authorised(policy)) == []
    assert matrix.append(subject) == 0
    for slot in (-1, 1):
        with pytest.raises(InputError) as caught:
            matrix.remove(slot)
        assert caught.value.kind == "unknown"
    matrix.remove(0)
    matrix.remove(0)
    assert list(matrix.authorised(policy)) == [False]
    assert matrix.append(subject) == 1
    assert list(matrix.authorised(policy)) == [False, True]
