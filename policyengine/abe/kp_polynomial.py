"""The paper's T(X): a polynomial in the exponent, for a bounded number of elements.

`T(x) = P^(x^n) * prod t_i^(Delta_i(x))` over i = 1 to n + 1. The security proof wants that an
event puts no more than n elements into one polynomial. The work grows with the square of n,
so large events get several polynomials: an element belongs to the one that its label's
pseudo-random name points at, and the proof holds for each of them by itself.

The authority knows the logarithms of the t_i, so that it computes T(x)^r with one
multiplication; nobody else does.

Source: paper 001, section 5.1; Goyal, Pandey, Sahai and Waters (2006), section 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from policyengine.abe.group import BASE_1, G1, ORDER, base_1, invert, power, scalar_of
from policyengine.primitives.prf import prf

ALONE: Final = 64
"""Up to so many elements one polynomial serves them all, as in the paper."""
_MEAN: Final = 2
_DEGREE: Final = 16  # of several; a mean of 2 goes beyond it less than once in 10**10
_PURPOSE: Final = "portcullis/kpabe/polynomial/v1"


def sizes(elements: int) -> tuple[int, int]:
    """Choose degree and number of polynomials.

    Args:
        elements: most elements of an event, from 1.

    Returns:
        Degree n of each, and how many.
    """
    if elements <= ALONE:
        return elements, 1
    return _DEGREE, -(-elements // _MEAN)


def logarithms(seed: bytes, number: int, degree: int) -> list[int]:
    """Return the logarithms of t_1 to t_(n+1) of one polynomial.

    Args:
        seed: of the master key.
        number: which polynomial, from 0.
        degree: n.
    """
    place = number.to_bytes(4, "big")
    return [
        scalar_of(prf(seed, _PURPOSE, place, index.to_bytes(4, "big"), size=64))
        for index in range(1, degree + 2)
    ]


def exponent(logs: Sequence[int], x: int) -> int:
    """Return the logarithm of T(x), for those who know the logarithms of the t_i."""
    degree = len(logs) - 1
    weights = _weights(degree, x)
    return sum(
        (weight * log for weight, log in zip(weights, logs, strict=True)), pow(x, degree, ORDER)
    )


@dataclass(frozen=True, slots=True)
class Polynomial:
    """One T.

    Args:
        points: t_1 to t_(n+1).
    """

    points: tuple[G1, ...]

    @property
    def degree(self) -> int:
        """n: the most elements of one event."""
        return len(self.points) - 1

    def at(self, x: int) -> G1:
        """Return T(x).

        Args:
            x: a scalar.
        """
        total = power(BASE_1, pow(x, self.degree, ORDER))
        for point, weight in zip(self.points, _weights(self.degree, x), strict=True):
            total = total + power(point, weight)
        return total


def make(logs: Sequence[int]) -> Polynomial:
    """Return the polynomial with these logarithms of its t_i."""
    return Polynomial(tuple(base_1(log) for log in logs))


def _weights(degree: int, x: int) -> list[int]:
    """Return the Lagrange coefficients of 1 to n + 1 at x, in linear time."""
    below = _denominators(degree)
    after = [1]
    for index in range(degree + 1, 1, -1):
        after.append(after[-1] * (x - index) % ORDER)
    before, found = 1, []
    for index, inverse in enumerate(below, start=1):
        found.append(before * after[degree + 1 - index] % ORDER * inverse % ORDER)
        before = before * (x - index) % ORDER
    return found


@lru_cache(maxsize=64)
def _denominators(degree: int) -> tuple[int, ...]:
    """Return 1 / prod (i - j) over j from 1 to n + 1 but i, for each i."""
    found = []
    for index in range(1, degree + 2):
        product = 1
        for other in range(1, degree + 2):
            if other != index:
                product = product * (index - other) % ORDER
        found.append(invert(product))
    return tuple(found)
