"""What an agent knows of one domain's overlay, and what it has told of itself. No I/O.

Announcements are soft state: they are told again before they end, and an agent of which
nothing fresh is known counts as one that wants everything. A rendezvous agent that does not
confirm within `patience` is passed by until it is heard again, and what it was given is
given to another one. So whatever is lost or late costs messages, or some seconds.

Source: paper 002, section 3.1.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

from policyengine.bundles import Announcement, rendezvous
from policyengine.errors import DecodeError

LIFE = 600
"""Seconds for which an announcement holds."""
REFRESH = 200.0
"""Seconds after which an agent tells again what has not changed."""
PATIENCE = 10.0
"""Seconds within which a rendezvous agent confirms."""
_ASK_AGAIN = 30.0
_MOST_WAITING = 10_000
_MOST_WAITING_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Held:
    """An event that a rendezvous agent was given and has not confirmed.

    Args:
        key: names the event.
        type: its type.
        hop: as it was sealed.
        carrier: the rendezvous agent.
        since: when it was given, on the boot-time clock.
    """

    key: bytes
    type: str
    hop: bytes
    carrier: str
    since: float


class Routes:
    """The state of routing of one domain at one agent.

    Args:
        agent: this agent's name.
        domain: the domain.
        patience: seconds within which a rendezvous agent confirms.
    """

    def __init__(self, agent: str, domain: str, *, patience: float = PATIENCE) -> None:
        self._agent = agent
        self._domain = domain
        self._patience = patience
        self._number = 0
        self._heard: dict[str, Announcement] = {}
        self._numbers: dict[str, int] = {}
        self._told: dict[str, tuple[Hashable, float]] = {}
        self._asked: dict[str, float] = {}
        self._passed_by: set[str] = set()
        self._held: dict[bytes, Held] = {}
        self._bytes = 0

    # what others want

    def hear(self, announcement: Announcement) -> bool:
        """Take in a verified announcement of another agent for this one.

        Returns:
            False for one that is not newer than what was heard.
        """
        agent = announcement.agent
        # INVARIANT: numbers never go back, whatever the broker repeats.
        if announcement.number <= self._numbers.get(agent, -1):
            return False
        self._numbers[agent] = announcement.number
        self._heard[agent] = announcement
        self._passed_by.discard(agent)
        if announcement.asks:
            self._told.pop(agent, None)
        return True

    def doubt(self, agent: str) -> None:
        """Forget what an agent wants: from now on it may want everything."""
        self._heard.pop(agent, None)

    def interest(self, agent: str, now: float) -> Announcement | None:
        """The announcement of an agent that still holds, or None.

        Args:
            agent: its name.
            now: Unix time in seconds, by the lease's signed time.
        """
        heard = self._heard.get(agent)
        return heard if heard is not None and now < heard.expires else None

    def carrier(self, event_type: str, agents: Iterable[str], now: float) -> str:
        """The rendezvous agent to give an event to, or "" where none is known to be there.

        Args:
            event_type: the event's type.
            agents: all agents of the overlay, this one included.
            now: Unix time in seconds, by the lease's signed time.
        """
        for name in rendezvous(self._domain, event_type, agents):
            if name == self._agent:
                return name
            if name not in self._passed_by and self.interest(name, now) is not None:
                return name
        return ""

    # what we want

    def due(self, contents: Mapping[str, Hashable], now: float) -> tuple[str, ...]:
        """The agents that are to be told (again) what this one wants.

        Args:
            contents: other agent -> what it is to know.
            now: Unix time in seconds, by the lease's signed time.
        """
        found = []
        for name, content in contents.items():
            told = self._told.get(name)
            again = told is None or told[0] != content or not 0 <= now - told[1] < REFRESH
            if again or self._asks(name, now, told):
                found.append(name)
        return tuple(found)

    def _asks(self, name: str, now: float, told: tuple[Hashable, float] | None) -> bool:
        since = now - self._asked.get(name, now - _ASK_AGAIN)
        # Only who was heard before can answer; others are asked with every refresh.
        known = told is not None and name in self._numbers
        return known and since >= _ASK_AGAIN and self.interest(name, now) is None

    def asks(self, name: str, now: float) -> bool:
        """Whether an announcement to an agent asks it for its own."""
        return self.interest(name, now) is None

    def next_number(self, now: float) -> int:
        """A number for the next announcement: above all before, even after a loss of state.

        Who lost it goes on from the clock, which has moved on: a start takes longer than numbers
        ever run ahead (by one for each announcement of the same millisecond).

        Args:
            now: Unix time in seconds, by the lease's signed time.
        """
        self._number = max(self._number + 1, int(now * 1000))
        return self._number

    def told(self, name: str, content: Hashable, now: float) -> None:
        """An announcement is in the broker's keeping.

        Args:
            name: whom it is for.
            content: what it says.
            now: when it was issued.
        """
        self._told[name] = (content, now)
        if self.asks(name, now):
            self._asked[name] = now

    # events on their way

    def room(self, size: int) -> bool:
        """Whether one more event of so many bytes may wait for a confirmation."""
        return len(self._held) < _MOST_WAITING and self._bytes + size <= _MOST_WAITING_BYTES

    def hold(self, held: Held) -> None:
        """Keep an event until its rendezvous agent confirms it."""
        self.release(held.key)
        self._held[held.key] = held
        self._bytes += len(held.hop)

    def release(self, key: bytes) -> None:
        """An event needs no confirmation any more."""
        gone = self._held.pop(key, None)
        if gone is not None:
            self._bytes -= len(gone.hop)

    def confirm(self, agent: str, key: bytes) -> None:
        """A rendezvous agent has sent an event on."""
        self._passed_by.discard(agent)
        self.release(key)

    def overdue(self, at: float) -> tuple[Held, ...]:
        """Events whose rendezvous agent is silent; it is passed by from now on.

        The caller gives them to another one and holds or releases them.

        Args:
            at: now, on the boot-time clock.
        """
        first = next(iter(self._held.values()), None)  # in order of giving
        if first is None or at - first.since < self._patience:
            return ()
        silent = {h.carrier for h in self._held.values() if at - h.since >= self._patience}
        self._passed_by |= silent
        return tuple(held for held in self._held.values() if held.carrier in silent)

    @property
    def waiting(self) -> int:
        """How many events wait for a confirmation."""
        return len(self._held)

    # over a restart

    def to_json(self) -> dict[str, object]:
        """What must survive a restart: the numbers, and what others want."""
        return {
            "number": self._number,
            "numbers": dict(self._numbers),
            "heard": [one.to_json() for one in self._heard.values()],
        }

    def restore(self, document: object) -> None:
        """Take up what `to_json` wrote.

        Raises:
            DecodeError: it is something else.
        """
        if not isinstance(document, dict) or set(document) != {"number", "numbers", "heard"}:
            raise DecodeError("not the state of routing")
        number, numbers, heard = document["number"], document["numbers"], document["heard"]
        if not isinstance(number, int) or not isinstance(numbers, dict):
            raise DecodeError("not the state of routing")
        if not isinstance(heard, list) or not all(isinstance(n, int) for n in numbers.values()):
            raise DecodeError("not the state of routing")
        known = [Announcement.from_json(one) for one in heard]
        self._number = number
        self._numbers = {str(name): each for name, each in numbers.items()}
        self._heard = {one.agent: one for one in known}
