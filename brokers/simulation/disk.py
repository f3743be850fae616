"""What a node keeps over a crash, in memory: the stores that production has in files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from brokers.client.wish import Wish
from brokers.data.subscriptions import Subscription
from brokers.ports import SeenEntry, Spend
from policyengine.bundles import TrustedState

Guard = Callable[[str], None]
"""Called at the points where the node may crash, before and after each write."""


class MemoryBundles:
    """Received bundles, sealed as they came."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._kept: dict[str, bytes] = {}

    def load(self, domain: str) -> bytes | None:
        """The sealed bundle of a domain, or None."""
        return self._kept.get(domain)

    def save(self, domain: str, message: bytes) -> None:
        """Keep a sealed bundle."""
        self._guard("bundle")
        self._kept[domain] = message
        self._guard("bundled")

    def domains(self) -> tuple[str, ...]:
        """The domains for which a bundle is kept."""
        return tuple(sorted(self._kept))


class MemoryState:
    """The trusted state of one audience."""

    def __init__(self, audience: str, guard: Guard) -> None:
        self._guard = guard
        self._state = TrustedState(audience)

    def load(self) -> TrustedState:
        """The state kept."""
        return self._state

    def save(self, state: TrustedState) -> None:
        """Keep a state."""
        self._guard("state")
        self._state = state
        self._guard("stated")


class MemorySubscriptions:
    """Durable subscriptions of an agent's clients."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._kept: tuple[Subscription, ...] = ()

    def load(self) -> tuple[Subscription, ...]:
        """The subscriptions kept."""
        return self._kept

    def save(self, subscriptions: Iterable[Subscription]) -> None:
        """Keep them."""
        self._guard("subscriptions")
        self._kept = tuple(subscriptions)
        self._guard("subscribed")


class MemoryRoutes:
    """What an agent knows of its overlays, domain -> state."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._kept: dict[str, object] = {}

    def load(self) -> dict[str, object]:
        """Domain -> its state."""
        return dict(self._kept)

    def save(self, states: Mapping[str, object]) -> None:
        """Keep it."""
        self._guard("routes")
        self._kept = dict(states)
        self._guard("routed")


class MemoryLog:
    """The window against doubles.

    Args:
        seconds: how long an entry counts, from when it was issued.
        guard: see `Guard`.
    """

    def __init__(self, seconds: int, guard: Guard) -> None:
        self._seconds = seconds
        self._guard = guard
        self._kept: dict[bytes, int] = {}
        self._spent: dict[bytes, list[Spend]] = {}

    def __contains__(self, key: bytes) -> bool:
        return key in self._kept

    def oldest(self, now: float) -> float:
        """Unix time before which doubles can no longer be told."""
        return now - self._seconds

    def spent(self, key: bytes, most: int) -> tuple[float, ...]:
        """When the last events that count against a limit were admitted."""
        return tuple(sorted(one.at for one in self._spent.get(key, ()))[-most:])

    def record(
        self, entries: Iterable[SeenEntry], *, now: float, spent: Iterable[Spend] = ()
    ) -> None:
        """Add entries and what they count against."""
        self._guard("record")
        self._kept.update((entry.key, entry.issued) for entry in entries)
        for one in spent:
            held = [old for old in self._spent.get(one.key, ()) if old.until > now]
            self._spent[one.key] = [*held, one]
        self._guard("recorded")


@dataclass
class AgentDisk:
    """Everything that an agent keeps."""

    bundles: MemoryBundles
    state: MemoryState
    subscriptions: MemorySubscriptions
    routes: MemoryRoutes
    seen: MemoryLog

    @classmethod
    def empty(cls, audience: str, guard: Guard) -> AgentDisk:
        """The disk of an agent that was just enrolled."""
        return cls(
            MemoryBundles(guard),
            MemoryState(audience, guard),
            MemorySubscriptions(guard),
            MemoryRoutes(guard),
            MemoryLog(3600, guard),
        )


@dataclass
class ClientDisk:
    """Everything that a client keeps; `wishes` by identifier."""

    bundles: MemoryBundles
    state: MemoryState
    seen: MemoryLog
    wishes: dict[str, Wish] = field(default_factory=dict)

    @classmethod
    def empty(cls, audience: str, guard: Guard) -> ClientDisk:
        """The disk of a client that was just enrolled."""
        return cls(MemoryBundles(guard), MemoryState(audience, guard), MemoryLog(86_400, guard))
