"""A principal's session: roles are activated, and end as soon as they must.

Which conditions are watched is decided at activation, with the values that the
rule's variables had then (paper 002, section 3.2: a predicate "tagged as a role
membership condition" is monitored). When one of them fails, the role ends, though
another rule or other values would meet it: nothing becomes active by itself, so
the session has to activate the role anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from policyengine.attributes import Value, shown, value_text
from policyengine.errors import InputError
from policyengine.roles.appointments import Appointment, Register
from policyengine.roles.decisions import decide
from policyengine.roles.environments import read_changes, same
from policyengine.roles.facts import Facts
from policyengine.roles.outcomes import Activation, Fallen, Outcome, outcome
from policyengine.roles.policy import RolePolicy
from policyengine.roles.rules import Bound, Credential, Ground
from policyengine.roles.search import View
from policyengine.roles.terms import Atom, ground_atom
from policyengine.roles.watching import Watch

MAX_ACTIVE: Final = 10_000
"""How many roles may be active in a session."""


class Session:
    """What one principal is, under a policy.

    INVARIANT: no role is active whose membership conditions are false, and the roles
    that a role's membership rests on became active without it, so none keep one
    another up in a circle.

    A session belongs to one thread; its policy may be shared. A method that raises
    changes nothing.

    Args:
        policy: the rules.
        now: the time at the beginning, in seconds.
    """

    def __init__(self, policy: RolePolicy, *, now: int = 0) -> None:
        self.policy = policy
        self.work = 0
        """Steps taken so far, a measure of the time that the session took."""
        self._register = Register(now)
        self._roles = Facts()
        self._active: dict[Atom, Activation] = {}
        self._watch = Watch()
        self._environment: dict[str, Value] = {}

    @classmethod
    def resume(
        cls,
        policy: RolePolicy,
        *,
        now: int,
        appointments: Iterable[Atom],
        environment: Mapping[str, object],
        activations: Iterable[Activation],
        ended: Mapping[Atom, str] | None = None,
        lost: Mapping[Atom, str] | None = None,
    ) -> tuple[Session, tuple[Fallen, ...]]:
        """Take up a session that was put down, and end what must have ended meanwhile.

        Args:
            policy: the rules.
            now: the time, in seconds.
            appointments: what is held now.
            environment: what is set now.
            activations: the roles that were active, in the order in which they became so.
            ended: roles that end for a reason of their own, and the reason.
            lost: why appointments are not held any more, where that is known.

        Returns:
            The session, and the roles that fell, as the other methods return them.

        Raises:
            InputError: as `set`.
        """
        session = cls(policy, now=now)
        for atom in appointments:
            session._register.issue(Appointment(atom, "", now))
        session.set(environment)
        for activation in activations:
            session._start(activation)
        return session, session._fall(ended or {}, lost or {})

    @property
    def now(self) -> int:
        """The time, in seconds."""
        return self._register.now

    @property
    def active(self) -> tuple[str, ...]:
        """The active roles as texts, sorted."""
        return tuple(sorted(role.text for role in self._active))

    @property
    def activations(self) -> tuple[Activation, ...]:
        """The active roles and why each is, in the order in which they became active."""
        return tuple(self._active.values())

    @property
    def appointments(self) -> tuple[Appointment, ...]:
        """The appointments that are held or will begin, sorted."""
        return self._register.appointments()

    @property
    def environment(self) -> dict[str, Value]:
        """What is set, by full name."""
        return dict(self._environment)

    def activate(self, role: str) -> Outcome:
        """Activate a role.

        Activating an active role anew renews it: what it is granted for now takes the
        place of what it was granted for. Roles that rest on it cannot be a reason.

        Args:
            role: such as `officer(7)`.

        Returns:
            `ok` when a rule grants it, with the reason; otherwise the nearest rule and
            what it lacks, an active role staying what it was.

        Raises:
            InputError: the role cannot be read; `too-large` when the search for a
                reason takes too long, or too many roles are active.
        """
        atom = ground_atom(role)
        if atom not in self._active and len(self._active) >= MAX_ACTIVE:
            raise InputError("too-large", f"there are over {MAX_ACTIVE} active roles")
        decision = self._decide(atom)
        if decision.activation is not None:
            self._start(decision.activation)
        elif atom in self._active:
            reason = f"{decision.reason}; it stays active as before"
            return Outcome(False, reason, denial=decision.denial)
        return decision

    def explain(self, role: str) -> Outcome:
        """Say why a role is active or could be activated now, or why not, and change nothing.

        Args:
            role: such as `officer(7)`.

        Raises:
            InputError: as `activate`.
        """
        atom = ground_atom(role)
        current = self._active.get(atom)
        if current is not None:
            return Outcome(True, current.reason, activation=current)
        return self._decide(atom)

    def permits(self, privilege: str) -> Outcome:
        """Tell whether an authorisation rule grants a privilege now (paper 002, section 3.2).

        Args:
            privilege: such as `publish(BurglaryEvent)`.

        Raises:
            InputError: as `activate`.
        """
        atom = ground_atom(privilege, "privilege")
        found = decide(atom, self.policy.privileges_for(atom.signature), self._view(()), self.now)
        self.work += found.work
        return found.outcome("permitted")

    def deactivate(self, role: str) -> Outcome:
        """End a role, and with it those whose membership rests on it.

        Args:
            role: such as `officer(7)`.

        Returns:
            `ok` when it was active.

        Raises:
            InputError: the role cannot be read.
        """
        atom = ground_atom(role)
        if atom not in self._active:
            return Outcome(False, f"{shown(atom.text)} is not active")
        self._end(atom)
        ended = Credential("role", atom)
        fallen = self._cascade([(ended, f"{ended.text} was deactivated")])
        return outcome(True, f"{shown(atom.text)} was deactivated", fallen)

    def appoint(
        self,
        appointment: str,
        *,
        issuer: str = "",
        starts: int | None = None,
        expires: int | None = None,
    ) -> Outcome:
        """Issue an appointment; it activates nothing.

        Args:
            appointment: such as `sworn(7)`.
            issuer: who issues it. It takes the place of the same issuer's last one.
            starts: the first second in which it is held; None is now.
            expires: the first second in which it is held no more; None is never.

        Returns:
            `ok` unless it has expired already.

        Raises:
            InputError: it cannot be read, or is never held; `too-large`.
        """
        atom = ground_atom(appointment, "appointment")
        issued = Appointment(atom, issuer, self.now if starts is None else starts, expires)
        if issued.over(self.now):
            return Outcome(False, f"{shown(atom.text)} expired at {expires}, and it is {self.now}")
        ended = self._register.issue(issued)
        if issued.held(self.now):
            return Outcome(True, f"{shown(atom.text)} is held")
        reason = f"{shown(atom.text)} will be held from {issued.starts}"
        named = Credential("appointment", atom)
        why = f"{named.text} was issued anew, from {issued.starts}"
        return outcome(True, reason, self._cascade([(named, why)] if ended else []))

    def revoke(self, appointment: str, *, issuer: str | None = None) -> Outcome:
        """Revoke an appointment, and end the roles whose membership rests on it.

        Args:
            appointment: such as `sworn(7)`.
            issuer: whose; None for everybody's.

        Returns:
            `ok` when there was one, be it held already or not.

        Raises:
            InputError: it cannot be read.
        """
        atom = ground_atom(appointment, "appointment")
        named = Credential("appointment", atom)
        held = atom in self._register.held
        if not self._register.revoke(atom, issuer):
            by = f" by {shown(issuer)}" if issuer else ""
            return Outcome(False, f"there is no {named.text}{by}")
        if atom in self._register.held:
            return Outcome(True, f"{named.text} was revoked; another issuer's is held")
        why = f"{named.text} was revoked"
        return outcome(True, why, self._cascade([(named, why)] if held else []))

    def set(self, environment: Mapping[str, object]) -> Outcome:
        """Change values of the environment, all at once.

        Args:
            environment: values by name, with or without `env.` before it. None removes
                a value, as if it had never been set. Others stay what they are.

        Returns:
            `ok`, with what ended.

        Raises:
            InputError: `invalid` for a name or value that cannot be, `type` for a
                value that is neither text nor a number nor a truth value.
        """
        changes = read_changes(environment)
        changed = [
            name for name, value in changes.items() if not same(self._environment.get(name), value)
        ]
        for name, value in changes.items():
            if value is None:
                self._environment.pop(name, None)
            else:
                self._environment[name] = value
        failed = self._failed(changed)
        told = (
            f"{shown(name)} is {'no longer set' if value is None else shown(value_text(value))}"
            for name, value in changes.items()
        )
        return outcome(True, ", ".join(told) or "nothing was to be set", self._cascade(failed))

    def advance(self, now: int) -> Outcome:
        """Let time go on; appointments begin and lapse on the way, in the order of time.

        Args:
            now: the time that it is, in seconds.

        Raises:
            InputError: `invalid` when that is in the past.
        """
        if now < self.now:
            raise InputError("invalid", f"time cannot go back from {self.now} to {now}")
        fallen: list[Fallen] = []
        while (time := self._register.next_time(now)) is not None:
            lapsed = [Credential("appointment", atom) for atom in self._register.advance(time)]
            fallen.extend(
                self._cascade([(each, f"{each.text} lapsed at {time}") for each in lapsed])
            )
        self._register.advance(now)
        return outcome(True, f"it is {now}", tuple(fallen))

    def _view(self, without: Collection[Atom]) -> View:
        return View(self._roles, self._register.held, self._environment, without)

    def _decide(self, atom: Atom) -> Outcome:
        without = self._watch.resting_on(atom) if atom in self._active else ()
        found = decide(atom, self.policy.rules_for(atom.signature), self._view(without), self.now)
        self.work += found.work
        return found.outcome("active")

    def _start(self, activation: Activation) -> None:
        role = activation.role
        former = self._active.get(role)
        if former is not None:
            self._watch.remove(role, former.membership)
            activation = replace(activation, since=former.since)
        self._active[role] = activation
        self._roles.add(role)
        self._watch.add(role, activation.membership)

    def _end(self, role: Atom) -> None:
        self._watch.remove(role, self._active.pop(role).membership)
        self._roles.discard(role)

    def _fall(self, ended: Mapping[Atom, str], lost: Mapping[Atom, str]) -> tuple[Fallen, ...]:
        fallen: list[Fallen] = []
        for role, why in ended.items():
            if role in self._active:
                self._end(role)
                gone = Credential("role", role)
                fallen.append(Fallen(role, gone, why, None, self.now))
                fallen.extend(self._cascade([(gone, f"{gone.text} ended")], fallen[-1]))
        failed: list[tuple[Ground, str]] = []
        for condition in dict.fromkeys(
            each for activation in self._active.values() for each in activation.membership
        ):
            problem = self._problem(condition, lost)
            if problem is not None:
                failed.append((condition, problem))
        return (*fallen, *self._cascade(failed))

    def _problem(self, condition: Ground, lost: Mapping[Atom, str]) -> str | None:
        if isinstance(condition, Bound):
            problem = condition.constraint.problem(self._environment, dict(condition.bindings))
            return None if problem is None else f"{condition.text} is not met: {problem}"
        facts = self._roles if condition.kind == "role" else self._register.held
        if condition.atom in facts:
            return None
        state = "active" if condition.kind == "role" else "held"
        return lost.get(condition.atom) or f"{condition.text} is not {state} any more"

    def _failed(self, names: Collection[str]) -> list[tuple[Ground, str]]:
        failed: list[tuple[Ground, str]] = []
        for bound, problem, size in self._watch.failed(names, self._environment):
            self.work += size
            if problem:
                failed.append((bound, f"{bound.text} is not met: {problem}"))
        return failed

    def _cascade(
        self, failed: Iterable[tuple[Ground, str]], root: Fallen | None = None
    ) -> tuple[Fallen, ...]:
        """End the roles that rest on failed conditions, and those that rest on these.

        Direct victims come first, each with the first of its conditions that failed,
        then theirs. Every role ends at most once, so this comes to an end.
        """
        fallen: list[Fallen] = []
        queue: deque[tuple[Ground, str, Fallen | None]] = deque(
            (condition, why, root) for condition, why in failed
        )
        while queue:
            condition, why, cause = queue.popleft()
            for role in self._watch.watchers(condition):
                self._end(role)
                fallen.append(Fallen(role, condition, why, cause, self.now))
                ended = Credential("role", role)
                queue.append((ended, f"{ended.text} ended", fallen[-1]))
        self.work += len(fallen)
        return tuple(fallen)
