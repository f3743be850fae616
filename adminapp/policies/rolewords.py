"""Tests on roles, said by the attributes of the single roles."""

from __future__ import annotations

from adminapp.roles.mapping import ROLE, role_attribute
from policyengine.attributes import (
    And,
    AtLeast,
    AttributeType,
    Equal,
    Expression,
    Not,
    Or,
    Test,
    unknown,
)
from policyengine.attributes.syntax import walk
from policyengine.errors import InputError


def role_type(roles: tuple[str, ...]) -> AttributeType:
    # A closed set: a misspelt role is an error with a suggestion, not a rule that never holds.
    return AttributeType("enum", values=tuple(roles)) if roles else AttributeType("string")


def check_roles(expression: Expression, roles: tuple[str, ...]) -> None:
    """Without a single role there is no closed set to check against, and still no name is right."""
    for node in walk(expression):
        if isinstance(node, Test) and node.attribute == ROLE and node.op in ("==", "!=", "in"):
            values = node.value if isinstance(node.value, tuple) else (node.value,)
            for value in values:
                if value not in roles:
                    raise unknown("role", str(value), roles, at=node.at)


def without_roles(expression: Expression, roles: tuple[str, ...]) -> Expression:
    """Say every test on `subject.role` by the attributes of the single roles.

    A principal has several roles at once, and the normal form would otherwise treat
    `subject.role == "a" && subject.role == "b"` as a contradiction.
    """
    match expression:
        case Not(term):
            return Not(without_roles(term, roles))
        case And(terms):
            return And(tuple(without_roles(term, roles) for term in terms))
        case Or(terms):
            return Or(tuple(without_roles(term, roles) for term in terms))
        case AtLeast(count, terms):
            return AtLeast(count, tuple(without_roles(term, roles) for term in terms))
        case Test(attribute) if attribute == ROLE:
            return _role_test(expression, roles)
        case Equal(left, right) if ROLE in (left, right):
            other = right if left == ROLE else left
            return Or(tuple(And((_active(name), Test(other, "==", name))) for name in roles))
        case _:
            return expression


def _role_test(test: Test, roles: tuple[str, ...]) -> Expression:
    match test.op:
        case "==":
            return _any([str(test.value)], roles)
        case "in":
            return _any([str(value) for value in test.value], roles)  # type: ignore[union-attr]
        case "!=":
            # Some role is active, and this one is not.
            return And((_any(roles, roles), Not(_any([str(test.value)], roles))))
        case "startsWith":
            return _any([name for name in roles if name.startswith(str(test.value))], roles)
        case "endsWith":
            return _any([name for name in roles if name.endswith(str(test.value))], roles)
        case "has":
            return _any(roles, roles)
        case _:
            raise InputError("type", "roles have no order", at=test.at, where=ROLE)


def _any(names: list[str] | tuple[str, ...], roles: tuple[str, ...]) -> Expression:
    return Or(tuple(_active(name) for name in names if name in roles))


def _active(name: str) -> Test:
    return Test(role_attribute(name), "==", True)
