"""How far an agent is ahead of each client that confirms. No I/O, no clock of its own.

A window holds what was sent and not confirmed. What was lost between the two (a kill, a broken
connection) is mended by a question: it stands in the client's queue behind all that was sent
before, and the client answers with what it still holds of that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from policyengine.bundles import Confirmation
from policyengine.primitives.rand import RandomSource

Place = tuple[str, str]
"""(domain, handle)."""
_ASK_AGAIN = 60.0
_PATIENCE = 5.0
_LINGER = 60.0
_NEVER = float("-inf")


@dataclass
class _Window:
    unconfirmed: Counter[bytes] = field(default_factory=Counter)
    # Sent after the question that is open: its answer says nothing about these.
    since: Counter[bytes] = field(default_factory=Counter)
    known: bool = False
    wanted: bool = False
    question: str = ""
    asked: float = _NEVER
    unanswered_since: float = _NEVER
    heard: float = _NEVER
    subscribed: float = _NEVER
    behind: bool = False
    # Names what was put last into the backlog; once that comes out, nothing is left.
    last: bytes = b""
    linger_until: float = _NEVER
    unlimited: bool = False


@dataclass(frozen=True)
class Due:
    """What a window needs.

    Args:
        handle: whose.
        question: to be put to the client, or empty.
        marker: to be put at the end of its backlog, or empty.
    """

    handle: str
    question: str
    marker: bytes


class Windows:
    """The windows of all clients that confirm; used by the data plane's thread alone.

    Args:
        limit: most deliveries sent ahead to one client of a domain.
        random: source of names.
        kept: (domain, handle, whether something waits for it) as they were saved last.
    """

    def __init__(
        self, limit: int, random: RandomSource, kept: Iterable[tuple[str, str, bool]] = ()
    ) -> None:
        self.limit = limit
        self._random = random
        self._windows: dict[Place, _Window] = {}
        self._active: set[Place] = set()
        self._touched: set[Place] = set()
        self._unsaved: set[Place] = set()
        for domain, handle, behind in kept:
            self._windows[domain, handle] = _Window(behind=behind)
            if behind:
                self._active.add((domain, handle))

    def counts(self, domain: str) -> tuple[int, int, int]:
        """Of a domain: clients that confirm, those for which events wait, deliveries sent ahead."""
        held = [one for place, one in list(self._windows.items()) if place[0] == domain]
        ahead = sum(one.unconfirmed.total() for one in held)
        return len(held), sum(one.behind for one in held), ahead

    # sending

    def may_send(self, place: Place, key: bytes) -> bool:
        """Whether a delivery may go to its client now; it counts as sent then."""
        window = self._windows.get(place)
        if window is None:
            return True
        if window.behind or not self.room(place):
            return False
        self._sent(place, window, key)
        return True

    def knows(self, place: Place) -> bool:
        """Whether deliveries can wait for this client, since it confirms what it has dealt with."""
        return place in self._windows

    def room(self, place: Place) -> bool:
        """Whether one more delivery may be sent ahead."""
        window = self._windows.get(place)
        if window is None or window.unlimited:
            return True
        return window.known and window.unconfirmed.total() < self.limit

    def put(self, place: Place) -> bytes:
        """Something is put at the end of a client's backlog; returns its name, 16 bytes."""
        window = self._windows[place]
        if not window.behind:
            window.behind = True
            self._unsaved.add(place)
        window.last = self._random.token(16)
        self._active.add(place)
        self._touched.add(place)
        return window.last

    def take(self, place: Place, key: bytes) -> None:
        """A delivery of the backlog is sent."""
        window = self._windows.get(place)
        if window is not None:
            self._sent(place, window, key)

    def came_out(self, place: Place, name: bytes, now: float) -> None:
        """Something came out of the backlog and is dealt with."""
        window = self._windows.get(place)
        if window is None:
            return
        self._touched.add(place)
        if window.behind and window.last == name:
            window.behind = False
            window.linger_until = now + _LINGER
            self._unsaved.add(place)
            if window.unlimited:
                del self._windows[place]

    def _sent(self, place: Place, window: _Window, key: bytes) -> None:
        self._touched.add(place)
        if window.unlimited:
            return
        window.unconfirmed[key] += 1
        if window.question:
            window.since[key] += 1

    # what becomes of a batch

    def settle(self) -> None:
        """What was decided since the last call is carried out."""
        self._touched.clear()

    def doubt(self) -> None:
        """It is not known whether it was: ask, and read the backlogs through to their ends."""
        for place in self._touched:
            window = self._windows.get(place)
            if window is None:
                continue
            window.known, window.last, window.question = False, b"", ""
            if not window.behind:
                window.behind = True
                self._unsaved.add(place)
            self._active.add(place)
        self._touched.clear()

    def unsaved(self, *, before: bool) -> list[tuple[str, str, bool | None]]:
        """(domain, handle, whether something waits; None to strike it off) to be saved.

        Args:
            before: before sending: all but that nothing waits any more, which may be saved
                only once what came out of the backlog is acknowledged.
        """
        found: list[tuple[str, str, bool | None]] = []
        for place in sorted(self._unsaved):
            window = self._windows.get(place)
            behind = None if window is None else window.behind
            if before and not behind and place in self._touched:
                continue
            found.append((*place, behind))
        self._unsaved.difference_update((domain, handle) for domain, handle, _ in found)
        return found

    # what clients say

    def confirm(self, said: Confirmation, now: float) -> int:
        """Take in a confirmation; returns how many deliveries it frees.

        Args:
            said: verified.
            now: Unix time in seconds.
        """
        place = said.domain, said.client
        window = self._windows.get(place)
        if window is None:
            window = self._windows[place] = _Window()
            self._unsaved.add(place)
        before = window.unconfirmed.total()
        window.heard, window.subscribed, window.unlimited = now, _NEVER, False
        if said.answers and said.answers == window.question:
            window.unconfirmed = Counter(said.held) + window.since
            window.known, window.question, window.since = True, "", Counter()
        for key in said.done:
            for counter in (window.unconfirmed, window.since):
                if counter[key] > 1:
                    counter[key] -= 1
                else:
                    del counter[key]
        if not (said.done or said.answers):
            window.wanted, window.question = True, ""
        self._active.add(place)
        return max(0, before - window.unconfirmed.total())

    def subscribed(self, place: Place, now: float) -> None:
        """A client that confirms has asked for a subscription: its program is running."""
        window = self._windows.get(place)
        if window is not None:
            window.subscribed = now

    # what is due

    def due(self, domain: str, now: float) -> list[Due]:
        """Questions and markers to send now; each counts as sent.

        Args:
            domain: one that is served.
            now: Unix time in seconds.
        """
        found = []
        for place in sorted(place for place in self._active if place[0] == domain):
            window = self._windows.get(place)
            if window is None:
                self._active.discard(place)
                continue
            self._tell_apart(window, now)
            question = self._question(window, now)
            marker = self.put(place) if window.behind and not window.last else b""
            if question or marker:
                self._touched.add(place)
                found.append(Due(place[1], question, marker))
                continue
            idle = window.known and not window.behind and not window.question
            if idle and now >= window.linger_until:
                self._active.discard(place)
        return found

    def _question(self, window: _Window, now: float) -> str:
        if window.question:
            due = now - window.asked >= _ASK_AGAIN
        elif window.unlimited:
            due = False
        elif window.wanted or not window.known:
            due = True
        else:
            full = window.behind and window.unconfirmed.total() >= self.limit
            due = full and now - max(window.heard, window.asked) >= _PATIENCE
        if not due:
            return ""
        if not window.question:
            window.unanswered_since = now
        window.wanted, window.asked, window.since = False, now, Counter()
        window.question = self._random.token(16).hex()
        return window.question

    @staticmethod
    def _tell_apart(window: _Window, now: float) -> None:
        """A client that asks for subscriptions and answers no question is of an old release."""
        silent = window.question and window.subscribed > window.unanswered_since
        if silent and now - window.subscribed >= _ASK_AGAIN:
            window.unlimited, window.question = True, ""
            window.unconfirmed.clear()

    def open(
        self, domain: str, now: float, *, urgent: bool, served: Callable[[str], bool]
    ) -> Collection[str]:
        """The clients whose backlog is to be read now.

        Args:
            domain: one that is served.
            now: Unix time in seconds.
            urgent: whether something must go out before its epoch ends, room or not.
            served: whether a handle may have anything at all; otherwise its backlog is emptied.
        """
        return {
            place[1]
            for place in self._active
            if place[0] == domain and self._is_open(place, now, urgent, served)
        }

    def _is_open(
        self, place: Place, now: float, urgent: bool, served: Callable[[str], bool]
    ) -> bool:
        window = self._windows.get(place)
        if window is None:
            return False
        if not window.behind:
            return now < window.linger_until
        return urgent or self.room(place) or not served(place[1])
