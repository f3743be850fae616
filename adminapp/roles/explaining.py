"""Why a principal has a role, as a chain of rules, or what is missing nearest to it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.utils import timezone

from adminapp.core.moments import moment
from adminapp.identity.models import Principal
from adminapp.roles import standing
from adminapp.roles.models import Appointment
from policyengine.attributes import shown
from policyengine.errors import InputError
from policyengine.roles import (
    Activation,
    Atom,
    Bound,
    Denial,
    Missing,
    RolePolicy,
    Rule,
    Session,
    read_atom,
)

MAX_DEPTH = 16
_NAMED = 3  # roles that one sentence names


@dataclass(frozen=True)
class Step:
    """A condition of a rule.

    Args:
        kind: `role`, `appointment` or `constraint`.
        text: the condition.
        holds: whether it holds.
        why: what is missing; "" when it holds.
        role: of a role, why it is active or not.
        issuer: of an appointment that is held, who gave it.
        starts: since when.
        ends: until when; None is for good.
        membership: whether it must keep holding.
    """

    kind: str
    text: str
    holds: bool
    why: str = ""
    role: RoleExplanation | None = None
    issuer: str | None = None
    starts: datetime | None = None
    ends: datetime | None = None
    membership: bool = True

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "kind": self.kind,
            "text": self.text,
            "holds": self.holds,
            "why": self.why,
            "membership": self.membership,
        }
        if self.kind == "role":
            found["role"] = None if self.role is None else self.role.to_json()
        if self.kind == "appointment":
            found |= {
                "issuer": self.issuer,
                "starts": moment(self.starts),
                "ends": moment(self.ends),
            }
        return found


@dataclass(frozen=True)
class RoleExplanation:
    """Why a role is active, or what it lacks.

    Args:
        role: the role, with its parameters where they are known.
        active: whether it counts.
        reason: the same as a sentence.
        rule: the rule that grants it, or the nearest one, counted from 0 among those of the role;
            None when there is none.
        steps: the conditions of that rule; of a refusal those that are missing.
        session: the open session that it is active in, where sessions count.
    """

    role: str
    active: bool
    reason: str
    rule: int | None
    steps: tuple[Step, ...]
    session: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "role": self.role,
            "active": self.active,
            "reason": self.reason,
            "rule": self.rule,
            "steps": [each.to_json() for each in self.steps],
            "session": self.session,
        }

    def chain(self) -> tuple[str, ...]:
        """The same as sentences, one a role, what it rests on first."""
        below = [line for step in self.steps if step.role for line in step.role.chain()]
        return tuple(dict.fromkeys((*below, self.reason)))


def explain_role(principal: Principal, role: str, at: datetime | None = None) -> RoleExplanation:
    """Say why a principal has a role at a moment (now by default), or what is nearest missing.

    Args:
        role: `officer`, or `officer(7)`; without parameters any activation will do.

    Raises:
        InputError: the role cannot be read.
    """
    return _Explainer(principal, at or timezone.now(), role).explain(read_atom(role))


def explain_roles(principal: Principal, at: datetime | None = None) -> list[RoleExplanation]:
    """Every role that a principal has at a moment (now by default), each with its chain."""
    when = at or timezone.now()
    atoms = sorted(standing.active_atoms(principal, at=when), key=lambda atom: atom.text)
    if not atoms:
        return []
    explainer = _Explainer(principal, when, *(atom.name for atom in atoms))
    return [explainer.explain(atom) for atom in atoms]


class _Explainer:
    """Explains roles of one principal at one moment."""

    def __init__(self, principal: Principal, at: datetime, *roles: str) -> None:
        self._principal = principal
        domain = principal.domain
        rules = standing.rules_about(domain, [read_atom(each).name for each in roles])
        around = standing.Surroundings.of(domain, at, rules)
        possible = standing.possible_by(around, principal)
        around.policy = RolePolicy((*rules, *_without_parameters(rules)))
        self._session = around.session(principal)
        for atom in around.order(possible):
            self._session.activate(atom.text)
        self._active = {each.role: each for each in self._session.activations}
        self._policy = around.policy
        self._rows = self._appointments(at)
        self._sessions = standing.open_sessions(around, principal)

    def explain(self, role: Atom, depth: int = 0) -> RoleExplanation:
        """Say why the principal has a role, or what it lacks."""
        ground = [each for each in self._active if _is(each, role)]
        if ground:
            return self._granted(self._active[min(ground, key=lambda atom: atom.text)], depth)
        if not role.variables:
            return self._denied(role, self._session, depth)
        others = sorted(each.text for each in self._active if each.name == role.name)
        if others:
            has = ", ".join(shown(each) for each in others[:_NAMED])
            more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
            verbs = "is, which does" if len(others) == 1 else "are, which do"
            reason = f"{shown(role.text)} is not active; {has}{more} {verbs} not fit"
            return RoleExplanation(role.text, False, reason, None, ())
        return self._denied(Atom(role.name), self._session, depth)

    def _granted(self, activation: Activation, depth: int) -> RoleExplanation:
        steps = tuple(self._step(each, activation, depth) for each in activation.conditions)
        found = RoleExplanation(
            role=activation.role.text,
            active=True,
            reason=f"{shown(activation.role.text)} is active{activation.grounds}",
            rule=self._number(activation.rule),
            steps=steps,
        )
        if self._sessions is None:
            return found
        session = self._sessions.get(activation.role)
        if session is None:
            reason = f"{shown(found.role)} could be activated, but no open session has it"
            return replace(found, active=False, reason=reason)
        return replace(found, session=session)

    def _step(self, condition: Any, activation: Activation, depth: int) -> Step:
        kept = condition in activation.membership
        if isinstance(condition, Bound):
            return Step("constraint", condition.constraint.text, True, membership=kept)
        if condition.kind == "role":
            below = self.explain(condition.atom, depth + 1) if depth < MAX_DEPTH else None
            return Step("role", condition.atom.text, True, role=below, membership=kept)
        row = self._rows.get(condition.atom)
        return Step(
            "appointment",
            condition.atom.text,
            True,
            issuer=None if row is None else issuer_name(row),
            starts=None if row is None else row.starts,
            ends=None if row is None else row.ends,
            membership=kept,
        )

    def _denied(self, role: Atom, session: Session, depth: int) -> RoleExplanation:
        try:
            denial = session.explain(role.text).denial
        except InputError as error:
            return RoleExplanation(role.text, False, error.message, None, ())
        if denial is None:  # nothing says which parameters it would have
            reason = f"{shown(role.text)} needs parameters that no condition gives"
            return RoleExplanation(role.text, False, reason, None, ())
        number = None if denial.rule is None else self._number(denial.rule)
        steps = tuple(self._missing(each, depth) for each in denial.missing)
        return RoleExplanation(role.text, False, _worded(denial, number), number, steps)

    def _missing(self, missing: Missing, depth: int) -> Step:
        condition = missing.condition
        kind = getattr(condition, "kind", "constraint")
        atom = getattr(missing.ground or condition, "atom", None)
        text = condition.text if atom is None else atom.text
        below = None
        if kind == "role" and depth < MAX_DEPTH:
            below = self.explain(atom, depth + 1)
        return Step(kind, text, False, why=missing.why, role=below)

    def _number(self, number: int) -> int:
        """Which of its role's rules one is; the engine counts all of a policy from 1."""
        rule = self._policy.rules[number - 1]
        before = self._policy.rules[: number - 1]
        return sum(each.role.signature == rule.role.signature for each in before)

    def _appointments(self, at: datetime) -> dict[Atom, Appointment]:
        rows = Appointment.objects.filter(principal=self._principal).active(at)
        return {
            Atom(row.name, tuple(row.parameters)): row
            for row in rows.select_related("issuer", "issued_by").order_by("-starts", "-pk")
        }


def issuer_name(row: Appointment) -> str:
    """Who gave an appointment."""
    if row.issued_by is not None:
        return row.issued_by.name
    return row.issuer.get_username() if row.issuer is not None else "the system"


def _worded(denial: Denial, number: int | None) -> str:
    """The engine's sentence, with rules counted as people count those of a role."""
    if denial.rule is None or number is None:
        return denial.reason
    return denial.reason.replace(f"by rule {denial.rule},", f"by rule {number + 1},", 1)


def _is(role: Atom, asked: Atom) -> bool:
    """Whether an active role is the one that was asked for; a bare name is any of its name."""
    if role.name != asked.name:
        return False
    if not asked.terms:
        return True
    return role.signature == asked.signature and asked.match(role, {}) is not None


def _without_parameters(rules: tuple[Rule, ...]) -> list[Rule]:
    """Rules that ask whether a role with parameters could be active at all, whatever they are."""
    return [
        Rule(Atom(rule.role.name), rule.conditions, rule.membership)
        for rule in rules
        if rule.role.terms
    ]
