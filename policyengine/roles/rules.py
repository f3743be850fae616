"""Role activation rules `r1..rn, a1..am, e1..el |- r` (paper 002, section 3.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from policyengine.attributes import shown
from policyengine.errors import InputError
from policyengine.roles.constraints import Constraint
from policyengine.roles.terms import Atom, Bindings, Constant

MAX_CONDITIONS: Final = 64
"""How many conditions a rule may have."""
CredentialKind: TypeAlias = Literal["role", "appointment"]


@dataclass(frozen=True, slots=True)
class Credential:
    """A role that must be active, or an appointment that must be held.

    Args:
        kind: `role` or `appointment`.
        atom: which one; its variables may be met by any.
    """

    kind: CredentialKind
    atom: Atom

    @property
    def text(self) -> str:
        """How a person would name it: "role `officer(7)`"."""
        return f"{self.kind} {shown(self.atom.text)}"


@dataclass(frozen=True, slots=True)
class Bound:
    """A constraint with the values of its variables.

    Args:
        constraint: the constraint.
        bindings: its variables and their values, sorted.
    """

    constraint: Constraint
    bindings: tuple[tuple[str, Constant], ...] = ()

    @property
    def text(self) -> str:
        """How a person would name it: "constraint `env.hour >= 9`"."""
        return f"constraint {shown(self.constraint.text)}"


Condition: TypeAlias = Credential | Constraint
"""A condition of a rule."""
Ground: TypeAlias = Credential | Bound
"""A condition with its variables replaced."""


def variables_of(condition: Condition) -> tuple[str, ...]:
    """Return the variables of a condition, once each."""
    return condition.atom.variables if isinstance(condition, Credential) else condition.variables


def grounded(condition: Condition, bindings: Bindings) -> Ground:
    """Put what the variables stand for into a condition.

    Args:
        condition: a condition of a rule.
        bindings: at least the variables of a constraint.
    """
    if isinstance(condition, Credential):
        return Credential(condition.kind, condition.atom.bound(bindings))
    return Bound(condition, tuple((name, bindings[name]) for name in condition.variables))


@dataclass(frozen=True, slots=True)
class Rule:
    """One activation rule; several rules of a role are alternatives.

    Args:
        role: the role that it activates.
        conditions: everything that must hold to activate it, prerequisites first,
            then appointments, then constraints.
        membership: those that must go on holding while the role is active.

    Raises:
        InputError: `too-large` for over `MAX_CONDITIONS` conditions.
    """

    role: Atom
    conditions: tuple[Condition, ...] = ()
    membership: tuple[Condition, ...] = ()

    def __post_init__(self) -> None:
        if len(self.conditions) > MAX_CONDITIONS:
            raise InputError(
                "too-large",
                f"the rule has over {MAX_CONDITIONS} conditions",
                where="conditions",
            )

    @property
    def credentials(self) -> tuple[Credential, ...]:
        """The roles and appointments among the conditions."""
        return tuple(each for each in self.conditions if isinstance(each, Credential))

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The environmental constraints among the conditions."""
        return tuple(each for each in self.conditions if isinstance(each, Constraint))

    @property
    def initial(self) -> bool:
        """Whether it starts a session: no role is asked for."""
        return not any(each.kind == "role" for each in self.credentials)
