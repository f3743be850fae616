"""Counters and the last refusals of an agent, for its status page."""

from __future__ import annotations

import threading
from collections import Counter, deque
from dataclasses import asdict, dataclass

_REMEMBERED = 100


@dataclass(frozen=True)
class RefusedMessage:
    """A message of the data plane that was refused.

    Args:
        at: Unix time in seconds.
        domain: the domain.
        kind: as of `bench.Refusal`.
        reason: one word.
        sender: handle or agent, "" where it is not known.
        type: event type as the sender wrote it, "" where it is not known.
        publication: identifier of the event or request, "" where it is not known.
    """

    at: float
    domain: str
    kind: str
    reason: str
    sender: str = ""
    type: str = ""
    publication: str = ""


class Statistics:
    """Counters by domain; safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counters: dict[str, Counter[str]] = {}
        self._refusals: dict[str, Counter[str]] = {}
        self._last: deque[RefusedMessage] = deque(maxlen=_REMEMBERED)

    def count(self, domain: str, what: str, number: int = 1) -> None:
        """Add to a counter."""
        if number:
            with self._lock:
                self._counters.setdefault(domain, Counter())[what] += number

    def refused(self, message: RefusedMessage) -> None:
        """Count a refusal by reason and remember it."""
        with self._lock:
            self._refusals.setdefault(message.domain, Counter())[message.reason] += 1
            self._last.append(message)

    def counters(self, domain: str) -> dict[str, int]:
        """Counters of a domain."""
        with self._lock:
            return dict(self._counters.get(domain, {}))

    def refusals(self, domain: str) -> dict[str, int]:
        """Refusals of a domain by reason."""
        with self._lock:
            return dict(self._refusals.get(domain, {}))

    def domains(self) -> set[str]:
        """Every domain of which something was counted."""
        with self._lock:
            return set(self._counters) | set(self._refusals)

    def last_refusals(self) -> list[dict[str, object]]:
        """The last refusals, newest first."""
        with self._lock:
            return [asdict(message) for message in reversed(self._last)]
