"""A split plan: which attributes travel on which overlay, and which are encrypted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from policyengine.attributes import shown
from policyengine.errors import DecodeError, InputError
from policyengine.primitives.canonical import dumps, loads
from policyengine.primitives.hashing import digest
from policyengine.privacy.splitting import MAX_PARTS

MAX_ATTRIBUTES: Final = 256
"""Most attributes of a plan."""
MAX_NAME: Final = 200

_VERSION: Final = 1
_FIELDS: Final = {"version", "overlays", "encrypted"}


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """How publications are split over overlays (paper 004, section 4.4).

    Args:
        overlays: the attributes that travel in clear on each overlay; their order numbers
            the overlays and the parts. An overlay may carry nothing.
        encrypted: the attributes that travel encrypted, in part 0.

    Raises:
        InputError: `invalid` for an attribute without a name or with two places,
            `too-large` for too many overlays or attributes.
    """

    overlays: tuple[frozenset[str], ...]
    encrypted: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if len(self.overlays) > MAX_PARTS:
            raise InputError(
                "too-large", f"a plan has at most {MAX_PARTS} overlays", where="overlays"
            )
        seen: set[str] = set()
        for group in (self.encrypted, *self.overlays):
            for name in sorted(group):
                check_attribute(name, "overlays")
            if twice := sorted(seen & group):
                raise InputError(
                    "invalid", f"attribute {shown(twice[0])} has two places", where=twice[0]
                )
            seen |= group
        if len(seen) > MAX_ATTRIBUTES:
            raise InputError(
                "too-large", f"a plan has at most {MAX_ATTRIBUTES} attributes", where="overlays"
            )

    @property
    def parts(self) -> int:
        """How many parts a publication has: one for each overlay, at least one."""
        return max(1, len(self.overlays))

    @property
    def attributes(self) -> frozenset[str]:
        """All attributes that the plan speaks of."""
        return self.encrypted.union(*self.overlays)

    @property
    def digest(self) -> str:
        """SHA-256 of the plan's canonical bytes; parts name it."""
        return digest(self.encode())

    def encode(self) -> bytes:
        """Write the plan as canonical JSON: a plan has exactly one text."""
        return dumps(
            {
                "version": _VERSION,
                "overlays": [sorted(group) for group in self.overlays],
                "encrypted": sorted(self.encrypted),
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> SplitPlan:
        """Read what `encode` wrote and nothing else.

        Raises:
            DecodeError: the bytes are not the canonical form of a plan.
        """
        obj = loads(data)
        if not isinstance(obj, Mapping) or set(obj) != _FIELDS:
            raise DecodeError("a split plan has exactly the fields of its version")
        if obj["version"] != _VERSION or type(obj["version"]) is not int:
            raise DecodeError("the split plan is of another version")
        overlays, encrypted = obj["overlays"], obj["encrypted"]
        if not isinstance(overlays, list):
            raise DecodeError("a split plan has a list of overlays")
        try:
            return cls(tuple(_canonical(group) for group in overlays), _canonical(encrypted))
        except InputError as error:
            raise DecodeError(error.message) from error


def plan_of(overlays: Iterable[Collection[str]], encrypted: Collection[str] = ()) -> SplitPlan:
    """Make a plan of lists of names, in any order.

    Raises:
        InputError: as `SplitPlan`; `invalid` also for a list that names an attribute twice.
    """
    groups = [_set(group) for group in overlays]
    return SplitPlan(tuple(groups), _set(encrypted))


def check_attribute(name: str, where: str) -> None:
    """Refuse a name that no attribute can have: empty, endless or not encodable.

    Raises:
        InputError: `invalid`, or `too-large` for a name that is too long.
    """
    if not name or any("\ud800" <= character <= "\udfff" for character in name):
        raise InputError("invalid", "an attribute has a name", where=where)
    if len(name) > MAX_NAME:
        raise InputError("too-large", f"{shown(name)} is too long for a name", where=where)


def _set(names: Collection[str]) -> frozenset[str]:
    group = frozenset(names)
    if len(group) != len(names):
        twice = sorted(name for name in group if list(names).count(name) > 1)
        raise InputError("invalid", f"attribute {shown(twice[0])} is named twice", where=twice[0])
    return group


def _canonical(names: object) -> frozenset[str]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DecodeError("attributes are a list of names")
    if names != sorted(set(names)):
        raise DecodeError("attributes are sorted and stand once")
    return frozenset(names)
