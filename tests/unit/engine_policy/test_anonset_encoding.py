"""Blinding, auxiliary filters and bulk matching at size."""

from __future__ import annotations

import pytest

from policyengine.anonset import (
    Encoder,
    Encoding,
    Match,
    Parameters,
    SubjectMatrix,
    encode_many,
    match,
    size_for,
)
from policyengine.anonset import encoder as encoder_module
from policyengine.anonset.blinding import Blinder
from policyengine.anonset.wire import decode_bloom_policy, decode_bloom_subject
from policyengine.errors import DecodeError
from policyengine.primitives.rand import SYSTEM_RANDOM, SeededRandom

KEY = b"e" * 32
ATTRIBUTES = [f"attribute{number}==1" for number in range(60)]


class Scripted:
    """A random source that repeats a script, for what chance would almost never do."""

    def __init__(self, *answers: bytes) -> None:
        self._answers = list(answers)

    def token(self, size: int) -> bytes:
        answer = self._answers.pop(0)
        assert len(answer) == size
        return answer


def test_blinding_gives_an_alias_and_for_some_attributes_a_second_element() -> None:
    for probability, least, most in ((0.0, 0, 0), (0.5, 10, 50), (1.0, 60, 60)):
        blinder = Blinder(KEY, Parameters("bloom", 10, 100, 5, 2, probability))
        elements = [blinder.elements(token) for token in ATTRIBUTES]
        assert all(len(element) == 16 for pair in elements for element in pair)
        assert least <= sum(len(pair) == 2 for pair in elements) <= most
        flat = [element for pair in elements for element in pair]
        assert len(set(flat)) == len(flat)
        assert blinder.conjunction(["b", "a", "b"]) == blinder.conjunction(["a", "b"])


def test_elements_depend_on_key_and_parameters() -> None:
    small, large = size_for(4), size_for(5)
    seen = {
        Blinder(key, parameters).elements("a")[0]
        for key in (KEY, b"f" * 32)
        for parameters in (small, large, size_for(4, encoding="tokens"))
    }
    assert len(seen) == 6


def test_a_policy_holds_its_mask_and_what_it_requires() -> None:
    parameters = size_for(6, blind_probability=0.0)
    encoder = Encoder(KEY, parameters, random=SeededRandom(b"p"))
    policy = decode_bloom_policy(encoder.encode_policy(ATTRIBUTES[:2]), parameters)
    assert policy.mask & policy.attributes == policy.mask
    assert policy.required & policy.mask == 0
    assert policy.required | policy.mask == policy.attributes
    assert 0 < policy.mask.bit_count() <= 2 * parameters.k
    everyone = decode_bloom_policy(encoder.encode_policy([]), parameters)
    assert everyone.required == 0


def test_auxiliary_filters_leave_out_one_element_each() -> None:
    parameters = size_for(4, blind_probability=0.0)
    encoder = Encoder(KEY, parameters, random=SeededRandom(b"aux"))
    encoded = encoder.encode_subject(ATTRIBUTES[:4])
    filters = decode_bloom_subject(encoded, parameters)
    assert len(filters.auxiliary) == 4
    for token in ATTRIBUTES[:4]:
        required = decode_bloom_policy(encoder.encode_policy([token]), parameters).required
        assert required & ~filters.whole == 0
        without = [required & ~one != 0 for one in filters.auxiliary]
        assert without.count(True) == 1


def test_the_papers_worked_example_of_matching() -> None:
    """Def. 7's example: a policy of w1 and w2 gives the indices of w1 and w2."""
    parameters = size_for(8)
    encoder = Encoder(KEY, parameters, random=SYSTEM_RANDOM)
    subject = encoder.encode_subject(["w1", "w2", "w3"])
    for asked in (["w1"], ["w1", "w2"], ["w1", "w2", "w3"], []):
        found = match(encoder.encode_policy(asked), subject, parameters)
        assert found.granted
        assert encoder.matched_tokens(subject, ["w1", "w2", "w3"], found) == tuple(asked)
    refused = match(encoder.encode_policy(["w1", "w4"]), subject, parameters)
    assert refused == Match(granted=False, indices=())


def test_a_false_hit_drops_an_index_and_never_a_grant() -> None:
    """With filters far too small the indices shrink, but the subject is still granted."""
    parameters = Parameters("bloom", 4, 12, 3, masks=1, blind_probability=0.0)
    dropped = 0
    for seed in range(40):
        encoder = Encoder(KEY, parameters, random=SeededRandom(b"%d" % seed))
        subject = encoder.encode_subject(ATTRIBUTES[:4])
        found = match(encoder.encode_policy(ATTRIBUTES[:4]), subject, parameters)
        assert found.granted
        dropped += len(found.indices) < 4
    assert dropped > 0


def test_another_key_cannot_turn_indices_into_attributes() -> None:
    parameters = size_for(8)
    encoder = Encoder(KEY, parameters, random=SeededRandom(b"x"))
    subject = encoder.encode_subject(ATTRIBUTES[:3])
    found = match(encoder.encode_policy(ATTRIBUTES[:1]), subject, parameters)
    assert encoder.matched_tokens(subject, ATTRIBUTES[:3], found) == (ATTRIBUTES[0],)
    with pytest.raises(DecodeError):
        encoder.matched_tokens(b"", ATTRIBUTES[:3], found)
    tokens = size_for(8, encoding="tokens")
    other = Encoder(b"f" * 32, tokens, random=SeededRandom(b"x"))
    encoded = Encoder(KEY, tokens, random=SeededRandom(b"x")).encode_subject(ATTRIBUTES[:3])
    assert other.matched_tokens(encoded, ATTRIBUTES[:3], Match(True, (0, 1, 2))) == ()


def test_padding_that_collides_is_drawn_again() -> None:
    parameters = size_for(3, encoding="tokens")
    same, other = b"\1" * 8, b"\2" * 8
    encoder = Encoder(KEY, parameters, random=Scripted(same + same, other))
    encoded = encoder.encode_subject(["a"])
    assert same in encoded
    assert other in encoded


@pytest.mark.parametrize("encoding", ["bloom", "tokens"])
def test_memory_of_elements_is_bounded(monkeypatch: pytest.MonkeyPatch, encoding: Encoding) -> None:
    monkeypatch.setattr(encoder_module, "_BANK_ROWS", 5)
    monkeypatch.setattr(encoder_module, "_CHUNK_BYTES", 40_000)
    parameters = size_for(6, encoding=encoding)
    token_lists = [ATTRIBUTES[at % 50 : at % 50 + 3] for at in range(120)]
    bounded = encode_many("subject", token_lists, KEY, parameters, random=SeededRandom(b"m"))
    monkeypatch.undo()
    assert bounded == encode_many(
        "subject", token_lists, KEY, parameters, random=SeededRandom(b"m")
    )


@pytest.mark.parametrize("encoding", ["bloom", "tokens"])
def test_bulk_matching_at_size_is_plain_matching(encoding: str) -> None:
    """64 policies against subjects over several chunks, entered whole and one by one."""
    parameters = size_for(6, target_log2=64, encoding=encoding)  # type: ignore[arg-type]
    universe = [f"a{number}" for number in range(12)]
    subjects = [
        [name for bit, name in enumerate(universe) if (row * 2654435761 >> bit) & 1][:3]
        for row in range(5000)
    ]
    encoded = encode_many("subject", subjects, KEY, parameters, random=SYSTEM_RANDOM)
    matrix = SubjectMatrix(encoded[:3001], parameters)
    for one in encoded[3001:3006]:
        matrix.append(one)
    matrix.extend(encoded[3006:3500])
    matrix.extend(encoded[3500:4200])
    matrix.extend(encoded[4200:])
    assert len(matrix) == 5000
    policies = [[], *([name] for name in universe), *(universe[at : at + 2] for at in range(11))]
    policies += [["nobody has this"], ["nobody", universe[0]]]
    for policy, asked in zip(
        policies,
        encode_many("policy", policies, KEY, parameters, random=SYSTEM_RANDOM),
        strict=True,
    ):
        wanted = set(policy)
        assert list(matrix.authorised(asked)) == [wanted <= set(held) for held in subjects]
