"""The order-preserving functions are random ones, and open only what is theirs."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from policyengine.attributes import AttributeType
from policyengine.attributes.codes import NumberCode
from policyengine.errors import DecryptionError, InputError
from policyengine.ope import DigitCipher, OrderTable, TableCipher, random_set
from policyengine.primitives.stream import KeyStream

KEY = bytes(range(32))


def key(number: int) -> bytes:
    return number.to_bytes(32, "big")


@pytest.mark.parametrize(("size", "bits", "limit"), [(3, 3, 111), (2, 4, 188), (4, 3, 128)])
def test_every_function_is_equally_likely(size: int, bits: int, limit: int) -> None:
    # limits far beyond the 99.9 % quantile of chi-square with 55, 119 and 69 degrees
    runs = 6_000
    counted = Counter(tuple(random_set(key(i), size, bits).tolist()) for i in range(runs))
    functions = list(combinations(range(2**bits), size))
    expected = runs / len(functions)
    assert set(counted) <= set(functions)
    assert sum((counted[one] - expected) ** 2 / expected for one in functions) < limit


def test_a_skewed_sampler_would_be_noticed() -> None:
    # halving the range and drawing evenly in each half: monotone, but not random
    runs, counted = 6_000, Counter[tuple[int, ...]]()
    rng = np.random.default_rng(1)
    for _ in range(runs):
        middle = int(rng.integers(1, 7))
        counted[int(rng.integers(0, middle)), middle, int(rng.integers(middle + 1, 8))] += 1
    functions = list(combinations(range(8), 3))
    expected = runs / len(functions)
    assert sum((counted[one] - expected) ** 2 / expected for one in functions) > 500


def test_each_image_is_spread_as_order_statistics_are() -> None:
    # the i-th of M even draws from 0..1 has mean (i + 1) / (M + 1)
    size, runs = 9, 2000
    images = np.array([random_set(key(i), size, 64) for i in range(runs)]) / 2.0**64
    means = np.arange(1, size + 1) / (size + 1)
    deviations = np.sqrt(means * (1 - means) / (size + 2) / runs)
    assert np.all(np.abs(images.mean(axis=0) - means) < 5 * deviations)


def test_a_key_makes_one_function_and_another_key_another() -> None:
    table = OrderTable(KEY, 1000)
    assert np.array_equal(table.table, OrderTable(KEY, 1000).table)
    assert not np.array_equal(table.table, OrderTable(key(7), 1000).table)
    assert random_set(KEY, 1000, 20).max() < 2**20


@pytest.mark.parametrize(("size", "bits"), [(0, 64), (2**20 + 1, 64), (3, 2), (1, 65)])
def test_sizes_that_do_not_fit_are_refused(size: int, bits: int) -> None:
    with pytest.raises(InputError, match="a table has") as caught:
        OrderTable(KEY, size, bits=bits)
    assert caught.value.kind == "invalid"


@pytest.mark.parametrize("plaintext", [-1, 10])
def test_values_outside_the_domain_are_refused(plaintext: int) -> None:
    with pytest.raises(InputError, match="outside the domain"):
        OrderTable(KEY, 10).encrypt(np.array([3, plaintext]))


def test_an_empty_batch_is_no_mistake() -> None:
    table = OrderTable(KEY, 10)
    nothing = table.encrypt(np.empty(0, dtype=np.int64))
    assert nothing.size == table.decrypt(nothing).size == 0


def test_a_table_opens_its_own_ciphertexts_only() -> None:
    cipher = TableCipher(KEY, 100)
    data = cipher.encrypt(42)
    assert cipher.decrypt(data) == 42
    top = (2**64 - 1).to_bytes(8, "big")
    for wrong in (data[:-1], data + b"\x00", bytes(8), top, data[:-1] + bytes((data[-1] ^ 1,))):
        with pytest.raises(DecryptionError):
            cipher.decrypt(wrong)


@pytest.mark.parametrize("declared", [AttributeType("int"), AttributeType("float")])
def test_digits_open_their_own_ciphertexts_only(declared: AttributeType) -> None:
    cipher = DigitCipher(KEY, NumberCode(declared))
    data = cipher.encrypt(2**63 + 12345)
    assert cipher.decrypt(data) == 2**63 + 12345
    flipped = data[:-1] + bytes((data[-1] ^ 1,))
    for wrong in (b"", data[:4], data[:-4], data[:-1], data + bytes(4), flipped, b"\xff" * 8):
        with pytest.raises(DecryptionError):
            cipher.decrypt(wrong)


@pytest.mark.parametrize("rank", [0, 1, -1, -2, 2, 255, -256, 10**99, -(10**99), 2**331])
def test_digits_of_numbers_without_limits_come_back(rank: int) -> None:
    cipher = DigitCipher(KEY, NumberCode(AttributeType("int")))
    assert cipher.decrypt(cipher.encrypt(rank)) == rank


def test_codes_longer_than_their_value_do_not_open() -> None:
    cipher = DigitCipher(KEY, NumberCode(AttributeType("int")))
    # a further digit under the right key of its place: 0 behind the code of 5
    longer = cipher.encrypt(5)
    digits = b"\x81\x88"[: len(longer) // 4]
    more = cipher._table(digits)[0]  # the forger needs the key itself
    with pytest.raises(DecryptionError):
        cipher.decrypt(longer + more)


def test_a_stream_goes_on_where_it_stopped() -> None:
    stream = KeyStream(KEY)
    assert stream.read(5) + stream.read(0) + stream.read(40) == KeyStream(KEY).read(45)
    # AES-256 of block 0 under 00 01 .. 1f, from another implementation
    assert KeyStream(KEY).read(16).hex() == "f29000b62a499fd0a9f39a6add2e7780"
    with pytest.raises(InputError, match="32 bytes"):
        KeyStream(b"short")
