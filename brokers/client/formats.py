"""Which agents know that we read deliveries in sessions, and which places a client remembers.

An agent of an earlier release does not answer a request that says more than it knows. So a
client first asks in the form that everybody reads; once that is answered it says, with one of
its subscriptions and nobody waiting for it, what it reads. Agents that answer are remembered
and told so from then on.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path

from brokers.adapters.files import write_atomically
from brokers.client.errors import ProfileError
from policyengine.bundles import SESSIONS

READS = (SESSIONS,)
"""What this release reads beside deliveries that are sealed for themselves."""
TRY_AGAIN_SECONDS = 3600.0

Where = tuple[str, str]
"""A domain and an agent's name."""


class PlaceFile:
    """Pairs of a domain and an agent, kept on disk.

    Args:
        path: the file.

    Raises:
        ProfileError: it is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # Whoever asks and whoever renews hear of different agents at the same moment.
        self._writing = threading.Lock()
        self.places: frozenset[Where] = _load(path)

    def put(self, where: Where) -> None:
        """Add a pair; returns when it survives a crash."""
        with self._writing:
            self._keep(self.places | {where})

    def drop(self, where: Where) -> None:
        """Take a pair out; returns when that survives a crash."""
        with self._writing:
            self._keep(self.places - {where})

    def _keep(self, places: frozenset[Where]) -> None:
        if places != self.places:
            write_atomically(self._path, json.dumps(sorted(places)).encode())
            self.places = places


def _load(path: Path) -> frozenset[Where]:
    if not path.exists():
        return frozenset()
    try:
        return frozenset(
            (str(domain), str(agent)) for domain, agent in json.loads(path.read_text())
        )
    except (ValueError, TypeError):
        raise ProfileError(f"{path} is damaged; remove it") from None


class AgentFormats:
    """What each agent may be told of the forms that this client reads.

    Args:
        path: remembers the agents that understood it.

    Raises:
        ProfileError: the file is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._file = PlaceFile(path)
        self._tried: dict[Where, float] = {}

    def told(self, where: Where) -> tuple[str, ...]:
        """What to say to an agent in every request; nothing where it may not understand it."""
        return READS if where in self._file.places else ()

    def try_now(self, where: Where, now: float) -> bool:
        """Whether to try an agent now; it is not tried again for an hour.

        Args:
            where: the agent.
            now: seconds, by the boot clock.
        """
        last = self._tried.get(where)
        if where in self._file.places or (last is not None and now - last < TRY_AGAIN_SECONDS):
            return False
        self._tried[where] = now
        return True

    def understood(self, where: Where) -> None:
        """The agent answered a request that said it."""
        self._file.put(where)

    def unanswered(self, where: Where) -> None:
        """It did not; it may be back at an earlier release."""
        self._file.drop(where)
        self._tried.pop(where, None)
