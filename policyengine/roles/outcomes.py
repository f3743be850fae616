"""What a session answers: what was done, and why or why not, in plain words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from policyengine.attributes import shown
from policyengine.roles.rules import Bound, Condition, Credential, Ground
from policyengine.roles.terms import Atom, Constant, term_text

_NAMED = 12


@dataclass(frozen=True, slots=True)
class Activation:
    """Why a role is active.

    Args:
        role: the role.
        rule: number of the rule that activated it, counted from 1.
        bindings: what the rule's variables stand for, sorted.
        conditions: the rule's conditions under these bindings: all held at activation.
        membership: those of them that must go on holding.
        since: when it became active, in seconds.
    """

    role: Atom
    rule: int
    bindings: tuple[tuple[str, Constant], ...]
    conditions: tuple[Ground, ...]
    membership: tuple[Ground, ...]
    since: int

    @property
    def reason(self) -> str:
        """The same as a sentence."""
        return f"{shown(self.role.text)} is active by rule {self.rule}{self.grounds}"

    @property
    def grounds(self) -> str:
        """What the rule rests on, as the rest of a sentence."""
        if not self.conditions:
            return ", which asks for nothing"
        named = joined(each.text for each in self.conditions)
        values = joined(f"{name} = {term_text(value)}" for name, value in self.bindings)
        return f": {named}" + (f", where {values}" if values else "")


@dataclass(frozen=True, slots=True)
class Missing:
    """A condition that is not met.

    Args:
        condition: the condition of the rule.
        why: what is missing, in plain words.
        ground: the condition with the variables that are known replaced; None for a
            constraint whose variables are not known.
    """

    condition: Condition
    why: str
    ground: Ground | None = None


@dataclass(frozen=True, slots=True)
class Denial:
    """Why something is not granted.

    Args:
        asked: the role or privilege.
        rule: number of the nearest rule, counted from 1; None when no rule speaks of it.
        missing: what that rule lacks.
        reason: the same as a sentence.
    """

    asked: Atom
    rule: int | None
    missing: tuple[Missing, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Fallen:
    """A role that ended because a membership condition of it failed.

    Args:
        role: the role.
        condition: the membership condition.
        why: what happened to the condition.
        cause: the role whose end it was, when that had fallen itself.
        at: when, in seconds.
    """

    role: Atom
    condition: Ground
    why: str
    cause: Fallen | None = field(repr=False, compare=False)  # a chain may be thousands long
    at: int

    @property
    def reason(self) -> str:
        """The same as a sentence."""
        return f"{shown(self.role.text)} ended because {self.why}"

    @property
    def chain(self) -> tuple[str, ...]:
        """One sentence for every role that fell on the way, the first cause first."""
        found = [self.reason]
        cause = self.cause
        while cause is not None:
            found.append(cause.reason)
            cause = cause.cause
        return tuple(reversed(found))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a request.

    Args:
        ok: whether it did what was asked.
        reason: why or why not, and what else ended, in plain words.
        fallen: the roles that ended with it, in the order of their ends: each after
            the one that caused it.
        activation: why the role or privilege is granted.
        denial: why it is not.
    """

    ok: bool
    reason: str
    fallen: tuple[Fallen, ...] = ()
    activation: Activation | None = None
    denial: Denial | None = None


def outcome(ok: bool, reason: str, fallen: tuple[Fallen, ...] = ()) -> Outcome:
    """Make an outcome whose reason names what fell."""
    return Outcome(ok, sentences((reason, *(each.reason for each in fallen))), fallen)


def joined(words: Iterable[str]) -> str:
    """Write a list as people do: `a, b and c`."""
    every = list(words)
    return " and ".join(part for part in (", ".join(every[:-1]), *every[-1:]) if part)


def sentences(parts: Iterable[str]) -> str:
    """Write several statements as one text, shortened when there are very many."""
    every = list(parts)
    more = [f"and {len(every) - _NAMED} more"] if len(every) > _NAMED else []
    return "; ".join([*every[:_NAMED], *more])


def lacking(condition: Condition, shown_as: Ground | None, problem: str | None) -> Missing:
    """Word a condition that is not met.

    Args:
        condition: the condition.
        shown_as: the condition with the variables that are known replaced; None for
            a constraint whose variables are not known.
        problem: why a constraint is not met.
    """
    if isinstance(condition, Credential):
        assert isinstance(shown_as, Credential)
        state = "active" if condition.kind == "role" else "held"
        return Missing(condition, f"{shown_as.text} is not {state}", shown_as)
    text = f"constraint {shown(condition.text)}"
    if shown_as is None:
        return Missing(condition, f"{text} cannot be told before its variables are known")
    assert isinstance(shown_as, Bound)
    return Missing(condition, f"{text} is not met: {problem}", shown_as)
