"""Which agent to ask on an overlay: the home, or its stand-in while the home is silent.

Pure: told what was asked of whom and who was heard, on a clock of the caller's.
"""

from __future__ import annotations

import threading

from brokers.data.reasons import NO_SHARE, RETRYABLE
from policyengine.bundles import HomeAgent

PATIENCE_SECONDS = 10.0


def lasting(reason: str, *, at_home: bool) -> bool:
    """Whether a refusal is an answer, and not something that passes by itself.

    Args:
        reason: an agent's word.
        at_home: whether the agent is the home. A stand-in holds no share of its clients' keys
            (ADR 0034), so that only the home's word counts that there is none.
    """
    return reason not in RETRYABLE and (at_home or reason != NO_SHARE)


class HomeWatch:
    """Knows which agents owe an answer, and since when. Safe to use from many threads.

    An agent is silent when it was asked something and nothing at all was heard of it for
    `patience` seconds. It stays silent until it is heard again: what it was asked waits in
    its queue, so its first answer after a restart brings everybody back to it.

    Args:
        patience: seconds.
    """

    def __init__(self, patience: float = PATIENCE_SECONDS) -> None:
        self.patience = patience
        self._lock = threading.Lock()
        self._asked: dict[str, float] = {}
        self._heard: dict[str, float] = {}

    def asked(self, agent: str, now: float) -> None:
        """The agent owes an answer, at the latest from now on."""
        with self._lock:
            self._asked.setdefault(agent, now)

    def heard(self, agent: str, now: float) -> None:
        """Something that the agent signed has arrived."""
        with self._lock:
            self._asked.pop(agent, None)
            self._heard[agent] = now

    def interrupted(self, agent: str) -> None:
        """Its broker is away, so its silence says nothing: begin to count anew."""
        with self._lock:
            self._asked.pop(agent, None)

    def silent(self, agent: str, now: float) -> bool:
        """Whether the agent has owed an answer for too long."""
        with self._lock:
            since = self._asked.get(agent)
        return since is not None and now - since >= self.patience

    def quiet_for(self, agent: str, now: float) -> float:
        """Seconds since the agent was last heard; infinity if it never was."""
        with self._lock:
            return now - self._heard.get(agent, float("-inf"))

    def choose(self, home: HomeAgent, fallback: HomeAgent | None, now: float) -> HomeAgent:
        """The agent to ask: the home, unless it is silent and its stand-in is not."""
        if fallback is None or not self.silent(home.agent, now):
            return home
        return home if self.silent(fallback.agent, now) else fallback
