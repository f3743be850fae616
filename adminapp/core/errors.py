"""The control plane's one tree of errors. Services raise them; API and console show them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from policyengine.errors import InputError


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with what somebody sent.

    Args:
        pointer: JSON pointer to the field (`/expression`), or "" for the whole.
        message: what is wrong, for a person.
        kind: one word for a program, as the engine has them (`syntax`, `unknown`, ...).
        position: characters from 0 in the field's text, or None.
        suggestion: the nearest name that exists, or None.
    """

    pointer: str
    message: str
    kind: str = "invalid"
    position: int | None = None
    suggestion: str | None = None

    @classmethod
    def from_input_error(cls, error: InputError, pointer: str) -> Problem:
        return cls(pointer, error.message, error.kind, error.at, error.suggestion)

    def to_json(self) -> dict[str, str | int | None]:
        return {
            "pointer": self.pointer,
            "detail": self.message,
            "kind": self.kind,
            "position": self.position,
            "suggestion": self.suggestion,
        }


class ServiceError(Exception):
    """Base of what services raise on purpose."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Invalid(ServiceError):
    """What was asked for cannot be; every reason is listed."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(problem.message for problem in self.problems))

    @classmethod
    def at(cls, pointer: str, message: str, kind: str = "invalid") -> Invalid:
        return cls([Problem(pointer, message, kind)])

    def below(self, prefix: str) -> Invalid:
        """The same problems, seen from an object that holds this one under `prefix`."""
        return Invalid(
            Problem(f"{prefix}{p.pointer}", p.message, p.kind, p.position, p.suggestion)
            for p in self.problems
        )


class Conflict(ServiceError):
    """The object changed since the caller read it."""

    def __init__(self, message: str, *, expected: int | None, current: int | None) -> None:
        super().__init__(message)
        self.expected = expected
        self.current = current


class InUse(ServiceError):
    """The object cannot go or change, because others stand on it."""


class AwaitingApproval(ServiceError):
    """Nothing is in force yet: the change was kept as a change set that a second person decides.

    Args:
        change_set: its number.
        domain: name of the domain that asks for it.
    """

    def __init__(self, change_set: int, domain: str) -> None:
        super().__init__(
            f"`{domain}` asks a second person; the change waits as number {change_set}"
        )
        self.change_set = change_set
        self.domain = domain


class OverQuota(ServiceError):
    """A domain would hold more than its quota allows."""


class Forbidden(ServiceError):
    """The actor may see this but not do it."""
