"""What an agent can tell from encodings, stated exactly and measured.

Within one agent, domain and epoch an encoding is a deterministic token. These tests
hold the security model to what is true, weak spots included: a leak that disappears
changes the documents, one that appears breaks a promise.
"""

from __future__ import annotations

import itertools
import statistics

from policyengine.anonset import Encoder, Parameters, match, size_for, tags
from policyengine.anonset.wire import (
    HEADER_BYTES,
    decode_bloom_policy,
    decode_bloom_subject,
    decode_token_policy,
    decode_token_subject,
)
from policyengine.primitives.rand import SeededRandom

BLOOM = size_for(12)
TOKENS = size_for(12, encoding="tokens")
ONE, OTHER = b"1" * 32, b"2" * 32


def encoder(parameters: Parameters, key: bytes = ONE, seed: bytes = b"leak") -> Encoder:
    return Encoder(key, parameters, random=SeededRandom(seed))


def names(*numbers: int) -> list[str]:
    return [f"attribute{number}==x" for number in numbers]


def outside_masks(first: bytes, second: bytes) -> tuple[int, int]:
    """What two policies require, outside of both their masks."""
    one, two = (decode_bloom_policy(data, BLOOM) for data in (first, second))
    free = ~(one.mask | two.mask)
    return one.attributes & free, two.attributes & free


def own_bits(subject: bytes) -> list[int]:
    """For each element of a subject the bits that no other of its elements has."""
    filters = decode_bloom_subject(subject, BLOOM)
    missing = [filters.whole & ~one for one in filters.auxiliary]
    # what is missing from two auxiliary filters belongs to the random string of BF_t
    random = 0
    for first, second in itertools.combinations(missing, 2):
        random |= first & second
    return [bits & ~random for bits in missing]


def share_an_element(first: bytes, second: bytes) -> bool:
    """An observer's test: do own bits of one all lie in the other, and the other way round?"""
    whole = [decode_bloom_subject(data, BLOOM).whole for data in (first, second)]
    there = [bits for bits in own_bits(first) if bits & ~whole[1] == 0 and bits.bit_count() > 3]
    back = [bits for bits in own_bits(second) if bits & ~whole[0] == 0 and bits.bit_count() > 3]
    return bool(there) and bool(back)


def test_masks_do_not_hide_that_policies_are_equal() -> None:
    coder = encoder(BLOOM)
    for number in range(300):
        policy = names(number, number + 1)
        first, second = coder.encode_policy(policy), coder.encode_policy(policy)
        assert first != second  # fresh masks make other bytes
        one, two = outside_masks(first, second)
        assert one == two  # and the same requirement: linked 300 times of 300
        one, two = outside_masks(first, coder.encode_policy(names(number, number + 2)))
        assert one != two


def test_the_filters_of_subjects_show_who_shares_an_attribute() -> None:
    coder = encoder(BLOOM)
    linked = apart = 0
    for number in range(100):
        base = 10 * number
        subject = coder.encode_subject(names(base, base + 1))
        linked += share_an_element(subject, coder.encode_subject(names(base, base + 2)))
        apart += share_an_element(subject, coder.encode_subject(names(base + 3, base + 4)))
    assert linked == 100
    assert apart == 0


def test_a_policy_shows_its_number_of_elements_by_its_bits() -> None:
    coder = encoder(size_for(12, blind_probability=0.0))
    parameters = size_for(12, blind_probability=0.0)
    sizes = {
        count: statistics.mean(
            decode_bloom_policy(
                coder.encode_policy(names(*range(100 * row, 100 * row + count))), parameters
            ).required.bit_count()
            for row in range(50)
        )
        for count in (1, 2, 4)
    }
    assert 1.7 < sizes[2] / sizes[1] < 2.1
    assert 1.7 < sizes[4] / sizes[2] < 2.1


def test_a_subject_does_not_show_its_number_of_attributes() -> None:
    """Padding to a fixed n: bytes, set bits and own bits are those of any other subject."""
    coder = encoder(BLOOM)
    few = [coder.encode_subject(names(row)) for row in range(200)]
    many = [coder.encode_subject(names(*range(row * 6, row * 6 + 6))) for row in range(200)]
    assert {len(subject) for subject in few} == {len(subject) for subject in many}
    bits = [
        statistics.mean(decode_bloom_subject(one, BLOOM).whole.bit_count() for one in group)
        for group in (few, many)
    ]
    assert abs(bits[0] - bits[1]) < 4  # of some 700, spread 13 each
    own = [
        statistics.mean(sum(bit.bit_count() for bit in own_bits(one)) for one in group)
        for group in (few, many)
    ]
    assert abs(own[0] - own[1]) < 4


def test_the_place_of_an_element_says_nothing() -> None:
    """Attributes stand at every place of the padded conjunction, keyed by the salt."""
    parameters = size_for(12, blind_probability=0.0)
    coder = encoder(parameters)
    asked = coder.encode_policy(names(1))
    places = [match(asked, coder.encode_subject(names(1)), parameters).indices for _ in range(300)]
    assert all(len(indices) == 1 for indices in places)
    assert {place for (place,) in places} == set(range(12))


def test_encoding_a_subject_again_shows_which_elements_are_padding() -> None:
    """Padding is fresh each time, so encodings are made once an epoch and kept."""
    coder = encoder(TOKENS)
    held = names(1, 2, 3)
    first, second = (
        set(decode_token_subject(coder.encode_subject(held), TOKENS)) for _ in range(2)
    )
    assert len(first & second) == 3


def test_tokens_leak_the_same_relations_plainly() -> None:
    coder = encoder(TOKENS)
    policy = coder.encode_policy(names(1, 2))
    assert policy == coder.encode_policy(names(2, 1))  # equal policies are equal bytes
    assert len(decode_token_policy(policy, TOKENS)) == 2  # their size stands in clear
    first = decode_token_subject(coder.encode_subject(names(1, 5)), TOKENS)
    second = decode_token_subject(coder.encode_subject(names(1, 6)), TOKENS)
    assert len(set(first) & set(second)) == 1  # one shared attribute
    assert len(first) == len(second) == TOKENS.n  # the size of a subject is hidden
    assert len(coder.encode_subject([])) * 20 < len(encoder(BLOOM).encode_subject([]))


def test_two_agents_or_epochs_have_nothing_that_could_be_linked() -> None:
    held = names(1, 2, 3)
    for parameters, decode in ((BLOOM, decode_bloom_policy), (TOKENS, decode_token_policy)):
        one, other = encoder(parameters, ONE), encoder(parameters, OTHER)
        policy, elsewhere = one.encode_policy(held), other.encode_policy(held)
        assert policy[HEADER_BYTES + 2 :] != elsewhere[HEADER_BYTES + 2 :]
        assert not match(policy, other.encode_subject(held), parameters).granted
        assert not match(elsewhere, one.encode_subject(held), parameters).granted
        assert decode(policy, parameters) != decode(elsewhere, parameters)
    tokens = [
        set(decode_token_subject(encoder(TOKENS, key, key).encode_subject(held), TOKENS))
        for key in (ONE, OTHER)
    ]
    assert not tokens[0] & tokens[1]
    assert not tags(ONE, held) & tags(OTHER, held)


def test_filters_of_two_agents_overlap_by_chance_only() -> None:
    parameters = size_for(12, blind_probability=0.0)
    one, other = encoder(parameters, ONE), encoder(parameters, OTHER)
    same, different = [], []
    for row in range(200):
        held = names(row, row + 1)
        first = decode_bloom_policy(one.encode_policy(held), parameters).required
        same.append(
            (first & decode_bloom_policy(other.encode_policy(held), parameters).required)
            .bit_count()
        )  # fmt: skip
        unrelated = names(row + 1000, row + 2000)
        different.append(
            (first & decode_bloom_policy(other.encode_policy(unrelated), parameters).required)
            .bit_count()
        )  # fmt: skip
    assert abs(statistics.mean(same) - statistics.mean(different)) < 1


def test_one_observer_of_two_epochs_cannot_link_subjects_either() -> None:
    first = encoder(BLOOM, ONE, b"a").encode_subject(names(1, 2))
    second = encoder(BLOOM, OTHER, b"b").encode_subject(names(1, 2))
    assert not share_an_element(first, second)


def test_tags_are_deterministic_within_their_key() -> None:
    assert tags(ONE, names(1)) == tags(ONE, names(1))
    assert len(tags(ONE, names(1, 2)) & tags(ONE, names(2, 3))) == 1
