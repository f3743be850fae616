"""The groups that there are, by name and by number."""

from __future__ import annotations

from typing import Final

from policyengine.attributes import unknown
from policyengine.errors import DecodeError
from policyengine.sde.curve import Curve
from policyengine.sde.group import Group, GroupName
from policyengine.sde.residues import Residues

GROUPS: Final[dict[GroupName, Group]] = {"curve": Curve(), "zp1024": Residues()}
_NUMBERS: Final[dict[GroupName, int]] = {"curve": 1, "zp1024": 2}
_NAMES: Final = {number: name for name, number in _NUMBERS.items()}


def group_of(name: GroupName) -> Group:
    """Return a group.

    Raises:
        InputError: `unknown` for another name.
    """
    found = GROUPS.get(name)
    if found is None:
        raise unknown("group", str(name), GROUPS)
    return found


def number_of(name: GroupName) -> int:
    """Return the number that stands for a group in bytes."""
    return _NUMBERS[name]


def name_of(number: int) -> GroupName:
    """Return the group that a number stands for.

    Raises:
        DecodeError: no group has it.
    """
    if number not in _NAMES:
        raise DecodeError("the bytes name a group that does not exist")
    return _NAMES[number]
