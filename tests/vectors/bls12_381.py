"""BLS12-381 in plain Python, written from the curve's definition: simple, and slow.

Only for the golden vectors: nothing here runs in constant time. A pair (a, b) of numbers
modulo `P` stands for a + b i, where i^2 = -1. A point is None (the neutral element) or its
two affine coordinates, which are pairs; in G1 their second halves are zero. An element of the
field of degree twelve is six pairs, the coefficients of 1, w, ..., w^5, where w^6 = 1 + i.

Bytes are those of the library mcl, not those of Zcash and Ethereum: the abscissa
little-endian, the real half first, and 0x80 in the last byte when the real half of the
ordinate is odd. So are the choices that the curve leaves open: messages are hashed by SHA-512
cut to 381 bits and mapped to G1 as Fouque and Tibouchi (2012) do, times the full cofactor;
and pairings are the third powers of the reduced optimal ate pairing.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha512
from typing import TypeAlias

Pair: TypeAlias = tuple[int, int]
Affine: TypeAlias = tuple[Pair, Pair]
Point: TypeAlias = Affine | None
Full: TypeAlias = tuple[Pair, ...]

X = -0xD201000000010000
"""The number that the curve is made of."""
ORDER = X**4 - X**2 + 1
P = (X - 1) ** 2 * ORDER // 3 + X
COFACTOR = (X - 1) ** 2 // 3
ZERO: Pair = (0, 0)
ONE: Full = ((1, 0), *[ZERO] * 5)
SIGN = 0x80


def number(*words: str) -> int:
    """A long number, in hexadecimal and in parts."""
    return int("".join(words), 16)


BASE_1: Affine = (
    (
        number(
            "17f1d3a73197d7942695638c4fa9ac0fc3688c4f9774b905",
            "a14e3a3f171bac586c55e83ff97a1aeffb3af00adb22c6bb",
        ),
        0,
    ),
    (
        number(
            "08b3f481e3aaa0f1a09e30ed741d8ae4fcf5e095d5d00af6",
            "00db18cb2c04b3edd03cc744a2888ae40caa232946c5e7e1",
        ),
        0,
    ),
)
BASE_2: Affine = (
    (
        number(
            "024aa2b2f08f0a91260805272dc51051c6e47ad4fa403b02",
            "b4510b647ae3d1770bac0326a805bbefd48056c8c121bdb8",
        ),
        number(
            "13e02b6052719f607dacd3a088274f65596bd0d09920b61a",
            "b5da61bbdc7f5049334cf11213945d57e5ac7d055d042b7e",
        ),
    ),
    (
        number(
            "0ce5d527727d6e118cc9cdc6da2e351aadfd9baa8cbdd3a7",
            "6d429a695160d12c923ac9cc3baca289e193548608b82801",
        ),
        number(
            "0606c4a02ea734cc32acd2b02bc28b99cb3e287e85a763af",
            "267492ab572e99ab3f370d275cec1da1aaa9075ff05f79be",
        ),
    ),
)


def add(x: Pair, y: Pair) -> Pair:
    """Sum of pairs."""
    return (x[0] + y[0]) % P, (x[1] + y[1]) % P


def double(x: Pair) -> Pair:
    """Twice a pair."""
    return 2 * x[0] % P, 2 * x[1] % P


def sub(x: Pair, y: Pair) -> Pair:
    """Difference of pairs."""
    return (x[0] - y[0]) % P, (x[1] - y[1]) % P


def mul(x: Pair, y: Pair) -> Pair:
    """Product of pairs."""
    return (x[0] * y[0] - x[1] * y[1]) % P, (x[0] * y[1] + x[1] * y[0]) % P


def inverse(x: Pair) -> Pair:
    """Inverse of a pair."""
    norm = pow(x[0] * x[0] + x[1] * x[1], -1, P)
    return x[0] * norm % P, -x[1] * norm % P


def power(x: Pair, exponent: int) -> Pair:
    """Power of a pair."""
    found = (1, 0)
    for bit in f"{exponent:b}":
        found = mul(found, found)
        if bit == "1":
            found = mul(found, x)
    return found


def root(x: int) -> int | None:
    """The square root that is a square itself, or None."""
    found = pow(x, (P + 1) // 4, P)
    return found if found * found % P == x % P else None


def root_of_pair(x: Pair) -> Pair | None:
    """A square root a + b i of a pair that is no plain number, or None: 2 a b is known."""
    norm = root(x[0] * x[0] + x[1] * x[1])
    if norm is None or x[1] == 0:
        return None
    for signed in (norm, -norm):
        a = root((x[0] + signed) * pow(2, -1, P))
        if a is not None:
            return a, x[1] * pow(2 * a, -1, P) % P
    return None


def full_mul(x: Full, y: Full) -> Full:
    """Product in the field of degree twelve; zeros in the first one are skipped."""
    real, other = [0] * 11, [0] * 11
    for i, (a, b) in enumerate(x):
        if a or b:
            for j, (c, d) in enumerate(y, start=i):
                real[j] += a * c - b * d
                other[j] += a * d + b * c
    for k in range(5):  # w^(k + 6) = (1 + i) w^k
        real[k] += real[k + 6] - other[k + 6]
        other[k] += real[k + 6] + other[k + 6]
    return tuple((real[k] % P, other[k] % P) for k in range(6))


def full_power(x: Full, exponent: int) -> Full:
    """Power; a negative one is for elements that the P^6-th power inverts."""
    if exponent < 0:
        return full_conjugate(full_power(x, -exponent))
    found = ONE
    for bit in f"{exponent:b}":
        found = full_mul(found, found)
        if bit == "1":
            found = full_mul(found, x)
    return found


def full_conjugate(x: Full) -> Full:
    """The P^6-th power, which takes w to -w."""
    return tuple(sub(ZERO, pair) if k % 2 else pair for k, pair in enumerate(x))


TURN = power((1, 1), (P - 1) // 6)
"""w^(P - 1)."""


def full_frobenius(x: Full) -> Full:
    """The P-th power."""
    found, factor = [], (1, 0)
    for a, b in x:
        found.append(mul((a, -b), factor))
        factor = mul(factor, TURN)
    return tuple(found)


def full_inverse(x: Full) -> Full:
    """The product of the eleven other conjugates, over the norm."""
    others, turned = ONE, x
    for _ in range(11):
        turned = full_frobenius(turned)
        others = full_mul(others, turned)
    (norm, *_) = full_mul(x, others)
    return tuple(mul(pair, inverse(norm)) for pair in others)


@lru_cache(maxsize=64)
def slope(p: Affine, q: Affine) -> Pair:
    """The slope of the line through two points; of the tangent when they are the same."""
    if p == q:
        return mul(mul((3, 0), mul(p[0], p[0])), inverse(add(p[1], p[1])))
    return mul(sub(q[1], p[1]), inverse(sub(q[0], p[0])))


@lru_cache(maxsize=65_536)
def plus(p: Point, q: Point) -> Point:
    """Sum of points."""
    if p is None or q is None:
        return p or q
    if p[0] == q[0] and add(p[1], q[1]) == ZERO:
        return None
    steep = slope(p, q)
    x = sub(sub(mul(steep, steep), p[0]), q[0])
    return x, sub(mul(steep, sub(p[0], x)), p[1])


def negative(p: Point) -> Point:
    """Inverse of a point."""
    return None if p is None else (p[0], sub(ZERO, p[1]))


def total(points: Iterable[Point]) -> Point:
    """Sum of many points."""
    found: Point = None
    for point in points:
        found = plus(found, point)
    return found


@lru_cache(maxsize=65_536)
def times(p: Point, scalar: int) -> Point:
    """A point times a scalar, which is not reduced: points may be outside the subgroup."""
    if p is None or scalar == 0:
        return None
    if scalar < 0:
        return times(negative(p), -scalar)
    (a, b), (c, d) = p
    if b == d == 0:
        return times_plain(a, c, scalar)
    return times_pairs(p, scalar)


def times_plain(first: int, second: int, scalar: int) -> Point:
    """The same in plain numbers, and with one division.

    Doubles and adds with (x, y, z) for the point (x / z^2, y / z^3), neutral where z is 0.
    """
    x, y, z = first, second, 1
    for bit in f"{scalar:b}"[1:]:
        yy, tangent = y * y % P, 3 * x * x % P
        s = 4 * x * yy % P
        z = 2 * y * z % P
        x = (tangent * tangent - 2 * s) % P
        y = (tangent * (s - x) - 8 * yy * yy) % P
        if bit == "1" and z == 0:
            x, y, z = first, second, 1
        elif bit == "1":
            zz = z * z % P
            run, rise = (first * zz - x) % P, (second * zz * z - y) % P
            assert run or rise, "an addition that is a doubling"
            square = run * run % P
            cube, s = run * square % P, x * square % P
            x = (rise * rise - cube - 2 * s) % P
            y = (rise * (s - x) - y * cube) % P
            z = z * run % P
    if z == 0:
        return None
    shrink = pow(z, -1, P)
    return (x * shrink**2 % P, 0), (y * shrink**3 % P, 0)


def times_pairs(p: Affine, scalar: int) -> Point:
    """The same with pairs."""
    x, y, z = *p, (1, 0)
    for bit in f"{scalar:b}"[1:]:
        xx, yy = mul(x, x), mul(y, y)
        tangent, s = add(double(xx), xx), double(double(mul(x, yy)))
        z = double(mul(y, z))
        x = sub(mul(tangent, tangent), double(s))
        y = sub(mul(tangent, sub(s, x)), double(double(double(mul(yy, yy)))))
        if bit == "1" and z == ZERO:
            x, y, z = *p, (1, 0)
        elif bit == "1":
            zz = mul(z, z)
            run, rise = sub(mul(p[0], zz), x), sub(mul(p[1], mul(zz, z)), y)
            assert run != ZERO or rise != ZERO, "an addition that is a doubling"
            square = mul(run, run)
            cube, s = mul(run, square), mul(x, square)
            x = sub(sub(mul(rise, rise), cube), double(s))
            y = sub(mul(rise, sub(s, x)), mul(y, cube))
            z = mul(z, run)
    if z == ZERO:
        return None
    shrink = inverse(z)
    square = mul(shrink, shrink)
    return mul(x, square), mul(y, mul(square, shrink))


def write_1(p: Point) -> bytes:
    """Bytes of a point of G1."""
    assert p is not None
    return signed(p[0][:1], p[1])


def write_2(p: Point) -> bytes:
    """Bytes of a point of G2."""
    assert p is not None
    return signed(p[0], p[1])


def signed(abscissa: tuple[int, ...], ordinate: Pair) -> bytes:
    """Bytes of an abscissa, and the sign of an ordinate."""
    data = b"".join(half.to_bytes(48, "little") for half in abscissa)
    return data[:-1] + bytes([data[-1] | (SIGN if ordinate[0] % 2 else 0)])


@lru_cache(maxsize=65_536)
def read_1(data: bytes) -> Point:
    """Read a point of G1: on the curve, in the subgroup, and not neutral."""
    assert len(data) == 48
    (x,), odd = unsigned(data)
    y = root(x**3 + 4)
    assert y is not None, "not on the curve"
    return in_subgroup(((x, 0), (y, 0)), odd=odd)


@lru_cache(maxsize=65_536)
def read_2(data: bytes) -> Point:
    """Read a point of G2, as `read_1`."""
    assert len(data) == 96
    (a, b), odd = unsigned(data)
    x = (a, b)
    y = root_of_pair(add(mul(x, mul(x, x)), (4, 4)))
    assert y is not None, "not on the curve"
    return in_subgroup((x, y), odd=odd)


def unsigned(data: bytes) -> tuple[list[int], bool]:
    """The halves of an abscissa, and whether the ordinate is odd."""
    body = data[:-1] + bytes([data[-1] & ~SIGN & 0xFF])
    halves = [int.from_bytes(body[at : at + 48], "little") for at in range(0, len(body), 48)]
    assert all(half < P for half in halves), "a number is too large"
    return halves, data[-1] >= SIGN


def in_subgroup(point: Affine, *, odd: bool) -> Point:
    """The point or its inverse, whichever has the sign."""
    assert times(point, ORDER) is None, "outside the subgroup"
    return point if point[1][0] % 2 == odd else negative(point)


def write_full(x: Full) -> bytes:
    """Bytes of an element of the large field: even powers of w, then odd ones."""
    halves = [half for k in (0, 2, 4, 1, 3, 5) for half in x[k]]
    return b"".join(half.to_bytes(48, "little") for half in halves)


@lru_cache(maxsize=65_536)
def hash_1(message: bytes) -> Point:
    """The point of G1 that a message is hashed to."""
    t = int.from_bytes(sha512(message).digest(), "little") % 2**381
    if t >= P:
        t %= 2**380
    squared = root(-3)
    assert squared is not None
    three = squared if squared % 2 else P - squared  # of the two roots the odd one
    w = three * t * pow(1 + 4 + t * t, -1, P) % P
    first = ((three - 1) * pow(2, -1, P) - t * w) % P
    for x in (first, -1 - first, 1 + pow(w * w, -1, P)):
        y = root(x**3 + 4)
        if y is not None:
            return times(((x % P, 0), (y if root(t) is not None else P - y, 0)), COFACTOR)
    raise AssertionError("one of the three is on the curve")


def product(pairs: Iterable[tuple[Point, Point]]) -> Full:
    """The product of the pairings of points of G1 and G2.

    The last power is 3 (P^12 - 1) / ORDER, as (P^6 - 1) (P^2 + 1) and what is left of it:
    3 (P^4 - P^2 + 1) / ORDER = (X - 1)^2 (X + P) (X^2 + P^2 - 1) + 3.
    """
    found = ONE
    for first, second in pairs:
        if first is not None and second is not None:
            found = full_mul(found, miller(first, second))
    found = full_mul(full_conjugate(found), full_inverse(found))
    found = full_mul(full_frobenius(full_frobenius(found)), found)
    one = full_power(full_power(found, X - 1), X - 1)
    two = full_mul(full_power(one, X), full_frobenius(one))
    squared = full_mul(full_power(full_power(two, X), X), full_conjugate(two))
    three = full_mul(squared, full_frobenius(full_frobenius(two)))
    return full_mul(three, full_power(found, 3))


def miller(p: Affine, q: Affine) -> Full:
    """What is raised to the last power, up to factors that it takes to 1."""
    found, at = ONE, q
    for bit in f"{-X:b}"[1:]:
        found = full_mul(line(at, at, p), full_mul(found, found))
        at = moved(at, at)
        if bit == "1":
            found = full_mul(line(at, q, p), found)
            at = moved(at, q)
    return full_conjugate(found)  # because X is negative


def moved(p: Affine, q: Affine) -> Affine:
    """A sum that is not neutral."""
    found = plus(p, q)
    assert found is not None
    return found


def line(p: Affine, q: Affine, at: Affine) -> Full:
    """The line through two points of the twist at a point of G1, times w^3.

    A point (x, y) of the twist is (x / w^2, y / w^3) on the curve.
    """
    steep = slope(p, q)
    of_x = mul(steep, sub(ZERO, at[0]))
    return (sub(mul(steep, p[0]), p[1]), ZERO, of_x, at[1], ZERO, ZERO)
