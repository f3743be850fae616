"""Sizes of an encoding, and how often it grants by mistake.

PS-ACF gives `(1-1/m)^(nk)` as the probability of a set bit; it is that of a zero
bit. The formulas here are the corrected ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, TypeAlias, cast

from policyengine.attributes import shown, unknown
from policyengine.errors import DecodeError, InputError

Encoding: TypeAlias = Literal["bloom", "tokens"]

ENCODINGS: Final = ("bloom", "tokens")
TOKEN_BITS: Final = 64
TARGET_LOG2: Final = 64
"""Default: at most one false grant in 2^64 pairs of a policy and a subject."""
_LIMITS: Final = {"n": (1, 1024), "m": (8, 2**17), "k": (1, 256), "masks": (0, 16)}
_FIELDS: Final = ("encoding", "n", "m", "k", "masks", "blind_probability")


@dataclass(frozen=True, slots=True)
class Parameters:
    """How conjunctions are encoded for one agent, domain and epoch.

    Args:
        encoding: `bloom` (PS-ACF) or `tokens` (sorted 64-bit PRF tokens).
        n: elements of every subject's conjunction, those of the blinding
            included; shorter conjunctions are padded to it. 1 to 1024.
        m: bits of a filter; for `tokens` bits of a token, always 64.
        k: bit positions of an element; for `tokens` always 1.
        masks: random strings in a policy's mask filter; for `tokens` unused.
        blind_probability: how many attributes get a second element x_i (Algorithm 1).

    Raises:
        InputError: `invalid`, naming the field; `unknown` for another encoding.
    """

    encoding: Encoding
    n: int
    m: int
    k: int
    masks: int = 2
    blind_probability: float = 0.5

    def __post_init__(self) -> None:
        if self.encoding not in ENCODINGS:
            raise unknown("encoding", str(self.encoding), ENCODINGS, where="encoding")
        for field, (low, high) in _LIMITS.items():
            _check_range(field, getattr(self, field), low, high)
        if not 0 <= self.blind_probability <= 1:
            raise InputError("invalid", "a probability is from 0 to 1", where="blind_probability")
        if self.encoding == "tokens" and (self.m, self.k) != (TOKEN_BITS, 1):
            raise InputError("invalid", f"tokens have m = {TOKEN_BITS} bits and k = 1", where="m")

    @property
    def filter_bytes(self) -> int:
        """Bytes of one filter, or of one token."""
        return (self.m + 7) // 8

    def to_json(self) -> dict[str, object]:
        """Write every field by name."""
        return {field: getattr(self, field) for field in _FIELDS}

    @classmethod
    def from_json(cls, obj: object) -> Parameters:
        """Read what `to_json` wrote, strictly.

        Raises:
            DecodeError: a field is missing, unknown or out of range.
        """
        if not isinstance(obj, Mapping) or set(obj) != set(_FIELDS):
            raise DecodeError("parameters have exactly the fields of their version")
        n, m, k, masks = numbers = [obj[field] for field in ("n", "m", "k", "masks")]
        probability = obj["blind_probability"]
        if any(type(number) is not int for number in numbers):
            raise DecodeError("a parameter is no whole number")
        if type(probability) not in (int, float):
            raise DecodeError("the probability is no number")
        try:
            return cls(cast(Encoding, str(obj["encoding"])), n, m, k, masks, float(probability))
        except InputError as error:
            raise DecodeError(error.message) from error


def length_for(attributes: int, blind_probability: float = 0.5) -> int:
    """Return the n into which any conjunction of so many attributes fits.

    Every attribute may get a second element, so with blinding n is twice as large.

    Args:
        attributes: most tokens of a conjunction, subject or policy.
        blind_probability: as in `Parameters`.
    """
    return max(1, 2 * attributes if blind_probability > 0 else attributes)


def size_for(
    n: int,
    *,
    target_log2: int = TARGET_LOG2,
    masks: int = 2,
    encoding: Encoding = "bloom",
    blind_probability: float | None = None,
) -> Parameters:
    """Find the smallest filter that meets a target of false grants.

    Args:
        n: elements of a subject's conjunction after blinding (`length_for` turns
            a number of attributes into it).
        target_log2: a subject that lacks one attribute of a policy is granted
            with a probability of at most 2^-target. 1 to 128.
        masks: mask strings of a policy.
        encoding: `bloom` or `tokens`; tokens have one size only.
        blind_probability: default 0.5 for `bloom`, 0 for `tokens`.

    Raises:
        InputError: `invalid` for a target or size out of range.
    """
    _check_range("target_log2", target_log2, 1, 128)
    if encoding == "tokens":
        return Parameters("tokens", n, TOKEN_BITS, 1, 0, blind_probability or 0.0)
    _check_range("n", n, *_LIMITS["n"])
    _check_range("masks", masks, *_LIMITS["masks"])
    m, k = _smallest(n, target_log2, masks)
    probability = 0.5 if blind_probability is None else blind_probability
    return Parameters(encoding, n, m, k, masks, probability)


def fill(m: int, k: int, elements: int) -> float:
    """Return the expected share of set bits after so many elements (corrected formula)."""
    return -math.expm1(k * elements * math.log1p(-1 / m))


def false_positive(parameters: Parameters, n: int, lacking: int = 1) -> float:
    """Return how likely a subject is granted that lacks attributes of a policy.

    `rho^(j*k)` with `rho = 1-(1-1/m)^(k*(n+1+mu))` for filters; for tokens each
    attribute that is lacking must collide with one of the subject's n.

    Args:
        parameters: the encoding.
        n: elements of the subject's conjunction, blinding included.
        lacking: how many elements of the policy the subject lacks; 1 is the worst case.
    """
    if parameters.encoding == "tokens":
        return float(min(1.0, n * 2.0**-TOKEN_BITS) ** lacking)
    rho = fill(parameters.m, parameters.k, n + 1 + parameters.masks)
    return float(rho ** (lacking * parameters.k))


@lru_cache(maxsize=256)
def _smallest(n: int, target_log2: int, masks: int) -> tuple[int, int]:
    """Return the least m that meets the target with some k, and the least such k."""
    elements = n + 1 + masks
    # The bound for large filters, m = elements * target / ln 2, is always a little too small.
    m = max(8, math.floor(elements * target_log2 / math.log(2)) - 2)
    while True:
        for k in range(1, _LIMITS["k"][1] + 1):
            if k * math.log2(fill(m, k, elements)) <= -target_log2:
                return m, k
        m += 1


def _check_range(field: str, value: int, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InputError(
            "invalid",
            f"{shown(value)} is out of range; expected {field} from {low} to {high}",
            where=field,
        )
