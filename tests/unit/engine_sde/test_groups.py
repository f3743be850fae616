"""The groups: their parameters, their laws, and what is refused."""

from __future__ import annotations

import pytest
from coincurve import PublicKey

from policyengine.errors import DecodeError, DecryptionError, InputError
from policyengine.primitives import SeededRandom
from policyengine.sde import init
from policyengine.sde.group import draw_scalar
from policyengine.sde.groups import GROUPS, name_of, number_of
from policyengine.sde.residues import G, P, Q
from tests.unit.engine_sde.samples import GROUPS as NAMES
from tests.unit.engine_sde.samples import Scripted

CURVE_PRIME = 2**256 - 2**32 - 977
CURVE_G = (
    0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798,
    0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8,
)


def is_prime(number: int) -> bool:
    """Miller and Rabin's test with a few fixed bases."""
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29):
        power = pow(base, odd, number)
        if power in (1, number - 1):
            continue
        for _ in range(twos - 1):
            power = power * power % number
            if power == number - 1:
                break
        else:
            return False
    return True


def test_rfc_5114_parameters_are_a_prime_order_subgroup() -> None:
    assert P.bit_length() == 1024
    assert Q.bit_length() == 160
    assert is_prime(P)
    assert is_prime(Q)
    assert (P - 1) % Q == 0
    assert G != 1
    assert pow(G, Q, P) == 1


def test_curve_order_and_generator_are_those_of_sec_2() -> None:
    curve = GROUPS["curve"]
    x, y = CURVE_G
    assert (y * y - x**3 - 7) % CURVE_PRIME == 0
    assert is_prime(curve.order)
    assert curve.generated(1).point() == CURVE_G
    # g^(order-1) is the inverse of g, so the order is right
    assert curve.generated(curve.order - 1).point() == (x, CURVE_PRIME - y)


@pytest.mark.parametrize("name", NAMES)
def test_group_laws(name) -> None:
    group, random = GROUPS[name], SeededRandom(name.encode())
    first, second = draw_scalar(group, random), draw_scalar(group, random)
    one, two = group.generated(first), group.generated(second)
    same = group.encode
    assert same(group.product(one, two)) == same(group.generated(first + second))
    assert same(group.power(one, second)) == same(group.generated(first * second))
    assert same(group.powers_of(one)(second)) == same(group.power(two, first))
    assert same(group.inverse(one)) == same(group.generated(-first))
    assert group.product_bytes(one, two) == same(group.product(one, two))
    assert same(group.decode(same(one))) == same(one) == same(group.load(same(one)))
    assert len(same(one)) == group.element_bytes
    assert same(group.generated(first + group.order)) == same(one)


def test_fixed_base_table_agrees_with_pow() -> None:
    group, random = GROUPS["zp1024"], SeededRandom(b"table")
    for scalar in (1, 2, 63, 64, Q - 1, draw_scalar(group, random)):
        assert group.generated(scalar) == pow(G, scalar, P)


@pytest.mark.parametrize("name", NAMES)
def test_identity_never_comes_out(name) -> None:
    group = GROUPS[name]
    element = group.generated(7)
    for attempt in (
        lambda: group.generated(0),
        lambda: group.generated(group.order),
        lambda: group.power(element, group.order),
        lambda: group.powers_of(element)(0),
        lambda: group.product(element, group.inverse(element)),
    ):
        with pytest.raises(DecryptionError, match="does not open"):
            attempt()
    assert group.product_bytes(element, group.inverse(element)) == bytes(group.element_bytes)


@pytest.mark.parametrize("name", NAMES)
def test_wrong_lengths_are_refused(name) -> None:
    group = GROUPS[name]
    good = group.encode(group.generated(5))
    for bad in (b"", good[:-1], good + b"\0", bytes(group.element_bytes)):
        with pytest.raises(DecodeError):
            group.decode(bad)


def test_points_off_the_curve_and_other_forms_are_refused() -> None:
    curve = GROUPS["curve"]
    off = next(x for x in range(1, 100) if pow(x**3 + 7, (CURVE_PRIME - 1) // 2, CURVE_PRIME) != 1)
    point = PublicKey.from_valid_secret((3).to_bytes(32, "big"))
    for bad in (
        b"\2" + off.to_bytes(32, "big"),
        b"\2" + (CURVE_PRIME + 1).to_bytes(32, "big"),  # x beyond the field
        b"\5" + point.format()[1:],
        point.format(compressed=False),
        point.format(compressed=False)[:33],
    ):
        with pytest.raises(DecodeError):
            curve.decode(bad)


def test_residues_outside_the_subgroup_are_refused() -> None:
    group = GROUPS["zp1024"]
    cofactor_element = next(value for value in range(2, 50) if pow(value, Q, P) != 1)
    order_two = P - 1
    shifted = group.generated(9) * order_two % P  # in no subgroup of odd order
    for bad in (0, 1, order_two, cofactor_element, shifted, P, P + group.generated(1) % 7):
        with pytest.raises(DecodeError):
            group.decode(bad.to_bytes(128, "big"))
    with pytest.raises(DecodeError):
        group.decode((group.generated(9) + P).to_bytes(129, "big")[-128:])


def test_names_and_numbers() -> None:
    assert [name_of(number_of(name)) for name in NAMES] == list(NAMES)
    with pytest.raises(DecodeError):
        name_of(9)
    with pytest.raises(InputError) as caught:
        init("zp1025")  # type: ignore[arg-type]
    assert caught.value.kind == "unknown"
    assert caught.value.suggestion == "zp1024"


@pytest.mark.parametrize("name", NAMES)
def test_scalars_are_in_range_and_never_forbidden(name) -> None:
    group = GROUPS[name]
    assert draw_scalar(group, Scripted(b"")) == 1  # zero bytes do not give zero
    largest = Scripted((group.order - 2).to_bytes(group.scalar_bytes, "big"))
    assert draw_scalar(group, largest) == group.order - 1
    assert draw_scalar(group, Scripted(b"", b"\1", b"\2"), 1, 2 - group.order) == 3
