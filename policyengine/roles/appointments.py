"""Appointments: credentials that somebody issued, and that begin, lapse and are revoked."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Final

from policyengine.errors import InputError
from policyengine.roles.facts import Facts
from policyengine.roles.terms import Atom

MAX_HELD: Final = 100_000
"""How many appointments may be kept at a time."""


@dataclass(frozen=True, slots=True)
class Appointment:
    """One appointment (paper 002, section 3.2: "appointment certificates").

    Args:
        atom: what it says: `sworn(7)`.
        issuer: who issued it. Two issuers' appointments of the same kind stand side
            by side; one issuer's new one takes the place of the old.
        starts: the first second in which it is held.
        expires: the first second in which it is held no more, or None.

    Raises:
        InputError: `invalid` when it would end before it begins.
    """

    atom: Atom
    issuer: str
    starts: int
    expires: int | None = None

    def __post_init__(self) -> None:
        if self.expires is not None and self.expires <= self.starts:
            raise InputError(
                "invalid",
                f"the appointment would end at {self.expires}, and begins at {self.starts}",
                where="expires",
            )

    def held(self, now: int) -> bool:
        """Tell whether it is in force in a second."""
        return self.starts <= now and (self.expires is None or now < self.expires)

    def over(self, now: int) -> bool:
        """Tell whether it will never be in force again."""
        return self.expires is not None and self.expires <= now


class Register:
    """All appointments of a session, and which are held now.

    Args:
        now: the time at the beginning, in seconds.
    """

    def __init__(self, now: int) -> None:
        self.held = Facts()
        self.now = now
        self._issued: dict[Atom, dict[str, Appointment]] = {}
        self._count = 0
        self._agenda: list[tuple[int, int, Atom]] = []
        self._entries = 0

    def appointments(self) -> tuple[Appointment, ...]:
        """Return those that are held or will begin, in the order of what they say."""
        every = [each for issued in self._issued.values() for each in issued.values()]
        return tuple(sorted(every, key=lambda each: (each.atom.text, each.issuer)))

    def issue(self, appointment: Appointment) -> bool:
        """Add an appointment, or put it in the place of the same issuer's.

        Returns:
            Whether something that was held is not held any more.

        Raises:
            InputError: `too-large` for over `MAX_HELD` appointments.
        """
        issued = self._issued.get(appointment.atom, {})
        if appointment.issuer not in issued:
            if self._count >= MAX_HELD:
                raise InputError("too-large", f"there are over {MAX_HELD} appointments")
            self._count += 1
        issued[appointment.issuer] = appointment
        self._issued[appointment.atom] = issued
        for time in (appointment.starts, appointment.expires):
            if time is not None and time > self.now:
                self._entries += 1
                heapq.heappush(self._agenda, (time, self._entries, appointment.atom))
        return self._refresh(appointment.atom)

    def revoke(self, atom: Atom, issuer: str | None) -> bool:
        """Remove appointments.

        Args:
            atom: what they say.
            issuer: whose; None for everybody's.

        Returns:
            Whether there was one.
        """
        issued = self._issued.get(atom, {})
        ended = [who for who in issued if issuer in (None, who)]
        for who in ended:
            del issued[who]
        self._count -= len(ended)
        self._refresh(atom)
        return bool(ended)

    def next_time(self, until: int) -> int | None:
        """Return the next time, up to `until`, at which something begins or lapses."""
        return self._agenda[0][0] if self._agenda and self._agenda[0][0] <= until else None

    def advance(self, now: int) -> tuple[Atom, ...]:
        """Let time go on to a moment that is no later than `next_time`.

        Returns:
            What is not held any more, in the order in which it was issued.
        """
        self.now = now
        due: dict[Atom, None] = {}
        while self._agenda and self._agenda[0][0] <= now:
            due[heapq.heappop(self._agenda)[2]] = None
        return tuple(atom for atom in due if self._refresh(atom))

    def _refresh(self, atom: Atom) -> bool:
        issued = self._issued.get(atom, {})
        over = [who for who, each in issued.items() if each.over(self.now)]
        for who in over:
            del issued[who]
        self._count -= len(over)
        if not issued:
            self._issued.pop(atom, None)
        was = atom in self.held
        if any(each.held(self.now) for each in issued.values()):
            self.held.add(atom)
            return False
        self.held.discard(atom)
        return was
