"""Values of the environment as they are set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from policyengine.attributes import AttributeType, Value, check_name, shown
from policyengine.errors import InputError
from policyengine.roles.constraints import PREFIX

_KINDS: Final = {
    bool: AttributeType("bool"),
    int: AttributeType("int"),
    float: AttributeType("float"),
    str: AttributeType("string"),
}


def read_changes(environment: Mapping[str, object]) -> dict[str, Value | None]:
    """Read what is to be set, by full name; None takes a value away.

    Raises:
        InputError: `invalid` for a name or value that cannot be, `type` for a value that is
            neither text nor a number nor a truth value.
    """
    changes: dict[str, Value | None] = {}
    for given, value in environment.items():
        name = given if given.startswith(PREFIX) else PREFIX + given
        check_name(name)
        if name in changes:
            raise InputError("invalid", f"{shown(name)} is set twice", where=name)
        kind = _KINDS.get(type(value))
        if value is not None and kind is None:
            message = f"{shown(name)} cannot be that; expected text, a number, `true` or `false`"
            raise InputError("type", message, where=name)
        changes[name] = None if kind is None else kind.check(value, name)
    return changes


def same(one: Value | None, other: Value | None) -> bool:
    """Tell whether two values are one."""
    return type(one) is type(other) and one == other  # 1 and true are equal to Python
