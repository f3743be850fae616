"""Anonymous sets: matching many customers, encoding large conjunctions (paper 000).

Baselines are the paper's own forms: Def. 7's test on every pair of rule and customer (in
numpy), and the encoding of each auxiliary set from its elements.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator, Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from benchmarks.aims import Aim
from benchmarks.tables import human, seconds, table, times
from policyengine.anonset import (
    Encoder,
    Parameters,
    SubjectMatrix,
    false_positive,
    length_for,
    match,
    size_for,
)
from policyengine.anonset.wire import HEADER_BYTES, SALT, decode_bloom_policy
from policyengine.primitives.rand import SYSTEM_RANDOM

KEY = bytes(range(32))
ATTRIBUTES = 15  # with their x_i 30 elements a conjunction, as the paper counts them
CHUNK = 2_000


def customers(count: int) -> Iterator[list[str]]:
    """Give the tokens of customers who share many of their attributes."""
    for number in range(count):
        yield [f"attribute{place}=={number * (place + 3) % 23}" for place in range(ATTRIBUTES)]


def rules(count: int) -> Iterator[list[str]]:
    """Give conjunctions of one to three attributes, some of them met by many customers."""
    for number in range(count):
        places = [(number + step) % ATTRIBUTES for step in range(1 + number % 3)]
        yield [f"attribute{place}=={number % 23 * (place + 3) % 23}" for place in places]


def matching(count: int, rule_count: int) -> list[Aim]:
    """Match every rule with every customer: the paper's form, bit-sliced, and tokens."""
    rows = []
    blooms, tokens = _bloom(count, rule_count), _tokens(count, rule_count)
    base, sliced, checked = blooms
    pairs = count * rule_count
    for name, taken in (
        ("paper's form, numpy", base),
        ("bit-sliced bitmaps", sliced),
        ("PRF tokens, sorted", tokens),
    ):
        rows.append([name, human(taken), f"{taken / pairs * 1e9:.2f} ns", times(base / taken)])
    table(
        f"{rule_count} rules x {count:,} customers ({checked} answers compared with `match`)",
        ["", "time", "a pair", "ratio"],
        rows,
    )
    what = f"{rule_count} rules x {count:,} customers matched"
    return [
        Aim(what, "the paper's form, numpy", 75, base / sliced),
        Aim(what, "25 ns a pair", 1, 25e-9 * pairs / sliced),
    ]


def _bloom(count: int, rule_count: int) -> tuple[float, float, int]:
    parameters = size_for(length_for(ATTRIBUTES))
    encoder = Encoder(KEY, parameters, random=SYSTEM_RANDOM)
    policies = [encoder.encode_policy(tokens) for tokens in rules(rule_count)]
    matrix, filters, sample = _fill(encoder, parameters, count)
    required = [decode_bloom_policy(policy, parameters) for policy in policies]

    def papers_form() -> list[NDArray[np.bool_]]:
        return [_papers_form(filters, rule.attributes, rule.mask) for rule in required]

    base = seconds(papers_form, repeat=1)
    sliced = seconds(lambda: [matrix.authorised(policy) for policy in policies])
    answers = papers_form()
    for policy, expected in zip(policies, answers, strict=True):
        bitmap = np.array(matrix.authorised(policy).tolist(), dtype=bool)
        if not np.array_equal(bitmap, expected):
            raise AssertionError("the bitmaps and the paper's form disagree")
    return base, sliced, _compare(policies, sample, answers, parameters)


def _fill(
    encoder: Encoder, parameters: Parameters, count: int
) -> tuple[SubjectMatrix, NDArray[np.uint64], list[bytes]]:
    """Encode the customers piece by piece; keep the matrix, the BF_t and a few encodings."""
    matrix, size = SubjectMatrix([], parameters), parameters.filter_bytes
    words = -(-size // 8)
    filters = np.zeros((count, words * 8), dtype=np.uint8)
    sample: list[bytes] = []
    every = customers(count)
    start = 0
    while chunk := list(itertools.islice(every, CHUNK)):
        encoded = encoder.encode_subjects(chunk)
        matrix.extend(encoded)
        first = HEADER_BYTES + SALT
        joined = np.frombuffer(b"".join(one[first : first + size] for one in encoded), np.uint8)
        filters[start : start + len(chunk), :size] = joined.reshape(len(chunk), size)
        sample = sample or encoded[:50]
        start += len(chunk)
    return matrix, filters.view(np.uint64), sample


def _papers_form(filters: NDArray[np.uint64], policy: int, mask: int) -> NDArray[np.bool_]:
    """Test `BF_a AND (BF_a-m OR BF_t) = BF_a` for every customer (Def. 7, step 2)."""
    size = filters.shape[1] * 8
    whole = np.frombuffer(policy.to_bytes(size, "little"), dtype=np.uint64)
    masked = np.frombuffer(mask.to_bytes(size, "little"), dtype=np.uint64)
    granted: NDArray[np.bool_] = np.all((whole & (masked | filters)) == whole, axis=1)
    return granted


def _compare(
    policies: list[bytes],
    sample: list[bytes],
    answers: list[NDArray[np.bool_]],
    parameters: Parameters,
) -> int:
    for policy, expected in zip(policies, answers, strict=True):
        for place, subject in enumerate(sample):
            if match(policy, subject, parameters).granted != bool(expected[place]):
                raise AssertionError("the paper's form and `match` disagree")
    return len(policies) * len(sample)


def _tokens(count: int, rule_count: int) -> float:
    parameters = size_for(ATTRIBUTES, encoding="tokens")
    encoder = Encoder(KEY, parameters, random=SYSTEM_RANDOM)
    policies = [encoder.encode_policy(tokens) for tokens in rules(rule_count)]
    matrix = SubjectMatrix(encoder.encode_subjects(customers(count)), parameters)
    return seconds(lambda: [matrix.authorised(policy) for policy in policies])


def encoding(attributes: int, literal_count: int) -> list[Aim]:
    """Encode one conjunction with all its auxiliary sets."""
    # Without blinding the conjunction has as many elements in both forms.
    parameters = size_for(attributes, blind_probability=0.0)
    tokens = [f"attribute{place}==value{place}" for place in range(attributes)]
    encoder = Encoder(KEY, parameters, random=SYSTEM_RANDOM)
    encoder.encode_subject(tokens)
    base = seconds(lambda: _literal(tokens, parameters), repeat=literal_count)
    known = seconds(lambda: encoder.encode_subject(tokens), repeat=20)
    many = [[*tokens[:-1], f"serial=={number}"] for number in range(256)]
    batch = seconds(lambda: encoder.encode_subjects(many)) / len(many)
    fresh = iter(range(100))

    def all_new() -> None:
        number = next(fresh)
        encoder.encode_subject([f"attribute{place}=={number}" for place in range(attributes)])

    new = seconds(all_new, repeat=20)
    rows = [
        [name, human(taken), times(base / taken)]
        for name, taken in (
            ("each filter from its elements", base),
            ("one, attributes never seen before", new),
            ("one, attributes known", known),
            ("many at a time", batch),
        )
    ]
    table(
        f"a conjunction of {attributes} attributes, {attributes + 1} filters of {parameters.m}"
        f" bits, k = {parameters.k}",
        ["", "time each", "ratio"],
        rows,
    )
    what = f"encoding of {attributes} attributes, {attributes + 1} filters"
    return [
        Aim(f"{what}, many at a time", "each filter by itself", 400, base / batch),
    ]


def _literal(tokens: Sequence[str], parameters: Parameters) -> list[int]:
    """Encode the whole set and each auxiliary set as Def. 6 is written."""
    sets = [list(tokens)] + [
        [token for token in tokens if token != left_out] for left_out in tokens
    ]
    return [_filter(members, parameters) for members in sets]


def _filter(members: Sequence[str], parameters: Parameters) -> int:
    bits = 0
    for member in members:
        for number in range(parameters.k):
            message = member.encode() + number.to_bytes(2, "big")
            drawn = blake2b(message, key=KEY, digest_size=8).digest()
            bits |= 1 << int.from_bytes(drawn, "big") % parameters.m
    return bits


def false_grants(subject_count: int, policy_count: int) -> None:
    """Count false grants where filters are small on purpose, beside what the formulas say."""
    rows = []
    for m, k, n in ((96, 4, 10), (120, 5, 10), (200, 7, 12), (300, 6, 20)):
        parameters = Parameters("bloom", n, m, k, masks=2, blind_probability=0.0)
        encoder = Encoder(KEY, parameters, random=SYSTEM_RANDOM)
        subjects = ([f"own{at}=={number}" for at in range(n)] for number in range(subject_count))
        matrix = SubjectMatrix(encoder.encode_subjects(subjects), parameters)
        # Nobody has the one attribute that each policy asks for: whatever is granted is false.
        granted = sum(
            matrix.authorised(encoder.encode_policy([f"other=={number}"])).count()
            for number in range(policy_count)
        )
        paper = (1 - (1 - 1 / m) ** (n * k)) ** k  # n elements only: no masks, no random string
        rows.append(
            [
                f"m = {m}, k = {k}, n = {n}",
                f"{granted / (subject_count * policy_count):.5f}",
                f"{false_positive(parameters, n):.5f}",
                f"{paper:.5f}",
            ]
        )
    table(
        f"false grants in {subject_count * policy_count:,} pairs that lack one attribute",
        ["", "measured", "corrected formula", "without masks"],
        rows,
    )


def main(argv: Sequence[str]) -> list[Aim]:
    """Run with sizes from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_anonset")
    parser.add_argument("--customers", type=int, default=100_000)
    parser.add_argument("--rules", type=int, default=64)
    parser.add_argument("--attributes", type=int, default=30)
    parser.add_argument("--quick", action="store_true", help="a tenth of the customers")
    options = parser.parse_args(argv)
    count = options.customers // 10 if options.quick else options.customers
    aims = matching(count, options.rules) + encoding(options.attributes, 3)
    false_grants(2_000, 200 if options.quick else 2_000)
    return aims


if __name__ == "__main__":
    main(sys.argv[1:])
