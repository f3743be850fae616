"""The group: strict bytes, identities, fixed bases."""

from __future__ import annotations

import pytest

from policyengine.abe.group import (
    BASE_1,
    BASE_2,
    G1,
    G1_BYTES,
    G2,
    ORDER,
    FixedBase,
    base_1,
    base_2,
    decode_g1,
    decode_g2,
    decode_scalar,
    encode_g1,
    encode_g2,
    encode_scalar,
    gt_power,
    gt_secret,
    hash_to_g1,
    invert,
    pair,
    pair_product,
    power,
    random_scalar,
    scalar_of,
)
from policyengine.errors import DecodeError, InputError
from policyengine.primitives.rand import SYSTEM_RANDOM, SeededRandom

FIELD = int(
    "1a0111ea397fe69a4b1ba7b6434bacd764774b84f38512bf"
    "6730d2a0f6b0f6241eabfffeb153ffffb9feffffffffaaab",
    16,
)


def test_the_pairing_is_bilinear() -> None:
    a, b = random_scalar(SYSTEM_RANDOM), random_scalar(SYSTEM_RANDOM)
    whole = gt_power(pair(BASE_1, BASE_2), a * b)
    assert pair(base_1(a), base_2(b)) == whole
    assert pair_product([(base_1(a), base_2(b)), (base_1(-a), base_2(b))]).is_one()
    assert pair_product([]).is_one()


@pytest.mark.parametrize("scalar", [0, 1, 5, -1, -7, ORDER - 1, ORDER, ORDER // 2 + 1, 2**254])
def test_multiples_agree_with_additions(scalar: int) -> None:
    assert base_1(scalar) == power(BASE_1, scalar)
    assert base_2(scalar) == power(BASE_2, scalar)
    assert power(BASE_1, scalar) + power(BASE_1, 3) == power(BASE_1, scalar + 3)


def test_a_table_of_another_point() -> None:
    point = hash_to_g1("test", b"point")
    table = FixedBase(point)
    assert table.power(3) == point + point + point
    assert table.power(-1) == -point


def test_random_scalars_come_from_the_source_alone() -> None:
    first, second = SeededRandom(b"one"), SeededRandom(b"one")
    drawn = [random_scalar(first) for _ in range(50)]
    assert drawn == [random_scalar(second) for _ in range(50)]
    assert len(set(drawn)) == 50
    assert all(0 < scalar < ORDER for scalar in drawn)


def test_zero_has_no_inverse() -> None:
    assert invert(7) * 7 % ORDER == 1
    for zero in (0, ORDER):
        with pytest.raises(InputError, match="no inverse"):
            invert(zero)


def test_scalars_are_made_of_enough_bytes() -> None:
    assert 0 < scalar_of(bytes(48)) < ORDER
    with pytest.raises(InputError, match="48 bytes"):
        scalar_of(bytes(47))


def test_hashing_separates_tags_and_fields() -> None:
    found = [
        hash_to_g1("t", b"ab"),
        hash_to_g1("t", b"a", b"b"),
        hash_to_g1("u", b"ab"),
        hash_to_g1("t"),
    ]
    assert len({encode_g1(point) for point in found}) == 4
    assert hash_to_g1("t", b"ab") == found[0]


def test_secrets_of_gt_depend_on_the_purpose() -> None:
    element = pair(BASE_1, BASE_2)
    assert len(gt_secret(element, info=b"a")) == 32
    assert gt_secret(element, info=b"a") != gt_secret(element, info=b"b")
    assert gt_secret(element, info=b"a") != gt_secret(gt_power(element, 2), info=b"a")


def test_bytes_go_there_and_back() -> None:
    scalar = random_scalar(SYSTEM_RANDOM)
    assert decode_scalar(encode_scalar(scalar)) == scalar
    assert decode_g1(encode_g1(base_1(scalar))) == base_1(scalar)
    assert decode_g2(encode_g2(base_2(scalar))) == base_2(scalar)


@pytest.mark.parametrize("data", [b"", bytes(31), bytes(33), ORDER.to_bytes(32, "big")])
def test_scalars_are_read_strictly(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_scalar(data)


def test_the_identity_is_neither_written_nor_read() -> None:
    for encode, identity in ((encode_g1, G1()), (encode_g2, G2())):
        with pytest.raises(InputError, match="identity"):
            encode(identity)
    with pytest.raises(DecodeError):
        decode_g1(G1().serialize())
    with pytest.raises(DecodeError):
        decode_g2(G2().serialize())


def test_points_have_one_length() -> None:
    for change in (lambda data: data[:-1], lambda data: data + b"\0", lambda _: b""):
        with pytest.raises(DecodeError):
            decode_g1(change(encode_g1(BASE_1)))
        with pytest.raises(DecodeError):
            decode_g2(change(encode_g2(BASE_2)))


def test_points_outside_the_subgroup_are_refused() -> None:
    """Abscissas of curve points, almost none of which lie in the subgroup of prime order."""
    on_curve = [x for x in range(1, 60) if pow(x**3 + 4, (FIELD - 1) // 2, FIELD) == 1]
    assert len(on_curve) > 15
    for x in on_curve:
        data = x.to_bytes(G1_BYTES, "little")
        for sign in (0, 0x80):
            with pytest.raises(DecodeError):
                decode_g1(data[:-1] + bytes((data[-1] | sign,)))


def test_abscissas_have_one_spelling() -> None:
    data = encode_g1(BASE_1)
    sign, x = data[-1] & 0x80, int.from_bytes(data[:-1] + bytes((data[-1] & 0x7F,)), "little")
    again = bytearray((x + FIELD).to_bytes(G1_BYTES, "little"))
    again[-1] |= sign
    with pytest.raises(DecodeError):
        decode_g1(bytes(again))
