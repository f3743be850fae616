"""Sizes of encodings and the corrected figures for false grants."""

from __future__ import annotations

import math
from typing import Any

import pytest

from policyengine.anonset import (
    Encoder,
    Parameters,
    SubjectMatrix,
    false_positive,
    fill,
    length_for,
    size_for,
)
from policyengine.errors import DecodeError, InputError
from policyengine.primitives.rand import SeededRandom

# (n, target) -> (m, k), for two masks: the corrected table of PS-ACF's sizes.
TABLE = {
    (5, 40): (463, 38), (5, 64): (740, 61),
    (10, 40): (751, 39), (10, 64): (1201, 63),
    (20, 40): (1328, 40), (20, 64): (2125, 62),
    (30, 40): (1905, 40), (30, 64): (3048, 63),
    (50, 40): (3060, 39), (50, 64): (4895, 63),
}  # fmt: skip


@pytest.mark.parametrize(("given", "expected"), TABLE.items())
def test_the_sizing_table(given: tuple[int, int], expected: tuple[int, int]) -> None:
    n, target = given
    parameters = size_for(n, target_log2=target, masks=2)
    assert (parameters.m, parameters.k) == expected
    assert false_positive(parameters, n) <= 2**-target
    smaller = [Parameters("bloom", n, parameters.m - 1, k) for k in range(1, 100)]
    assert all(false_positive(one, n) > 2**-target for one in smaller)
    # m is about (n + 1 + mu) * k / ln 2
    assert parameters.m == pytest.approx((n + 3) * target / math.log(2), rel=0.01)


def test_the_default_target_is_64_bits() -> None:
    assert size_for(10) == size_for(10, target_log2=64)
    assert size_for(10).blind_probability == 0.5
    assert size_for(10, blind_probability=0.25).blind_probability == 0.25


def test_other_sizes() -> None:
    tokens = size_for(10, encoding="tokens")
    assert (tokens.m, tokens.k, tokens.masks, tokens.blind_probability) == (64, 1, 0, 0.0)
    assert tokens.filter_bytes == 8
    assert size_for(10).filter_bytes == 151
    assert size_for(1, target_log2=1, masks=0).m >= 8
    assert length_for(5) == 10
    assert length_for(5, 0.0) == 5
    assert length_for(0) == 1


def test_false_grants_fall_with_each_attribute_that_is_lacking() -> None:
    parameters = size_for(10, target_log2=40)
    one = false_positive(parameters, 10)
    assert false_positive(parameters, 10, lacking=2) == pytest.approx(one**2)
    assert false_positive(parameters, 3) < one
    tokens = size_for(10, encoding="tokens")
    assert false_positive(tokens, 10) == 10 * 2.0**-64
    assert false_positive(tokens, 10, lacking=2) == (10 * 2.0**-64) ** 2


def test_the_papers_1500_bits_are_too_few_when_every_attribute_is_blinded() -> None:
    """1500 bits and 35 positions suit 30 elements; with every x_i there are 60."""
    paper = Parameters("bloom", 60, 1500, 35)
    assert false_positive(paper, 60) == pytest.approx(1e-4, rel=0.1)
    # among 100,000 customers that is a false grant now and then
    assert 100_000 * false_positive(paper, 60) > 1


def test_the_corrected_formula_is_what_happens() -> None:
    """Measured false grants lie where the formula says, not where the paper's does."""
    parameters = Parameters("bloom", 10, 80, 4, masks=2, blind_probability=0.0)
    encoder = Encoder(bytes(32), parameters, random=SeededRandom(b"measured"))
    subjects = encoder.encode_subjects(
        [f"held {row} {column}" for column in range(10)] for row in range(400)
    )
    matrix = SubjectMatrix(subjects, parameters)
    granted = sum(
        matrix.authorised(encoder.encode_policy([f"lacking {number}"])).count()
        for number in range(400)
    )
    measured = granted / (400 * 400)
    assert measured == pytest.approx(false_positive(parameters, 10), rel=0.1)
    zero_share = (1 - 1 / 80) ** (10 * 4)  # what the paper takes for the share of ones
    assert abs(measured - (1 - zero_share) ** 4) > 0.2 * measured


def test_the_share_of_set_bits() -> None:
    assert fill(1000, 1, 1) == pytest.approx(1 / 1000)
    assert fill(1000, 7, 0) == 0
    assert fill(8, 256, 1000) == pytest.approx(1)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n", 0), ("n", 1025), ("n", 1.0), ("m", 7), ("m", 2**17 + 1), ("k", 0), ("k", 257),
        ("masks", -1), ("masks", 17), ("masks", True), ("blind_probability", 1.5),
        ("blind_probability", float("nan")), ("encoding", "blom"),
    ],
)  # fmt: skip
def test_sizes_out_of_range_name_the_field(field: str, value: Any) -> None:
    fields: dict[str, Any] = size_for(10).to_json() | {field: value}
    with pytest.raises(InputError) as caught:
        Parameters(**fields)
    assert caught.value.where == field
    with pytest.raises(DecodeError):
        Parameters.from_json(fields)


def test_targets_and_sizes_asked_for_are_checked() -> None:
    for arguments in ({"target_log2": 0}, {"target_log2": 129}, {"masks": 99}):
        with pytest.raises(InputError):
            size_for(10, **arguments)
    with pytest.raises(InputError):
        size_for(0)
    with pytest.raises(InputError) as caught:
        Parameters("tokens", 10, 32, 1)
    assert caught.value.where == "m"


@pytest.mark.parametrize(
    "change",
    [
        {"n": "10"}, {"n": True}, {"n": 10.0}, {"k": None}, {"blind_probability": "0.5"},
        {"blind_probability": True}, {"more": 1}, {"encoding": 5},
    ],
)  # fmt: skip
def test_parameters_are_read_strictly(change: dict[str, Any]) -> None:
    good: dict[str, Any] = size_for(10).to_json()
    assert Parameters.from_json(good) == size_for(10)
    with pytest.raises(DecodeError):
        Parameters.from_json(good | change)


def test_missing_fields_are_refused() -> None:
    for broken in (None, [], {}, {"encoding": "bloom"}):
        with pytest.raises(DecodeError):
            Parameters.from_json(broken)
