"""How often a publisher may publish: a sliding window for each publisher and limit.

A policy that has a limit lets each publisher publish so many events in any span of so many
seconds (paper 002, section 4.2: "frequency of publication"). An event counts against every
policy that let it through; what a policy did not let through does not count against it. Where
several policies permit an event, one that still has room suffices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from hashlib import blake2b

from brokers.data.reasons import TOO_OFTEN
from brokers.ports import Spend
from policyengine.bundles import RateLimit
from policyengine.errors import RejectedError
from policyengine.primitives.canonical import pack


class TooOften(RejectedError):
    """Refused for now: every policy that would let the event through is used up.

    Args:
        limit: the one that has room first.
        again: Unix time in whole seconds from which it has.
        now: Unix time in seconds, by the lease's signed time.
    """

    def __init__(self, limit: RateLimit, again: int, now: float) -> None:
        events = "1 event" if limit.count == 1 else f"{limit.count} events"
        span = "a second" if limit.seconds == 1 else f"{limit.seconds} seconds"
        wait = max(1, math.ceil(again - now))
        at = datetime.fromtimestamp(again, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        super().__init__(
            TOO_OFTEN,
            f"this publisher may publish at most {events} in {span} by policy; it may try again"
            f" in {wait} second{'' if wait == 1 else 's'}, from {at}",
        )
        self.again = again


def _nothing(_key: bytes, _most: int) -> Sequence[float]:
    return ()


class Tally:
    """What publishers have used of their limits, as the batch at hand leaves it.

    What is added is forgotten with this object: it counts once it is recorded.

    Args:
        recorded: key and number -> when the last so many events were admitted, by time.
    """

    def __init__(self, recorded: Callable[[bytes, int], Sequence[float]] = _nothing) -> None:
        self._recorded = recorded
        self._read: dict[tuple[bytes, int], Sequence[float]] = {}
        self._added: dict[bytes, list[float]] = {}

    def room_from(self, key: bytes, limit: RateLimit) -> float:
        """Unix time from which another event fits; 0 where the limit was never reached.

        Args:
            key: from `limit_key`.
            limit: the limit as it is now.
        """
        place = key, limit.count
        if place not in self._read:
            self._read[place] = self._recorded(key, limit.count)
        times = sorted((*self._read[place], *self._added.get(key, ())))
        # The oldest of the last `count` events must have left the window.
        return times[-limit.count] + limit.seconds if len(times) >= limit.count else 0.0

    def add(self, spends: Iterable[Spend]) -> None:
        """Count an event that was admitted."""
        for one in spends:
            self._added.setdefault(one.key, []).append(one.at)


def limit_key(domain: str, publisher: str, limit: RateLimit) -> bytes:
    """Names a publisher's use of a limit; stays the same when the limit is changed."""
    packed = pack(b"limit", domain.encode(), publisher.encode(), limit.name.encode())
    return blake2b(packed, digest_size=16).digest()
