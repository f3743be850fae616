"""What the data plane needs from the world, as protocols.

The state machines and the data path know these and nothing else, so that a test hands
them an in-memory transport and a clock that it moves by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from policyengine.bundles import Root, SignedRoot, TrustedState
from policyengine.ope import Question
from policyengine.primitives.hpke import SealingKey
from policyengine.primitives.signatures import SigningKey


class TransportError(Exception):
    """The broker cannot be reached, or it refused what was sent.

    Args:
        message: what happened, fit for a person; never holds a credential.
        refused: True where the broker answered and said no (asking again will not help).
    """

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused


class ComparatorAway(Exception):
    """The comparator cannot be asked now, or has no key of a column yet: what needs it waits."""


@dataclass(frozen=True)
class Outgoing:
    """One message on its way to a queue.

    Args:
        queue: name of the queue, without `/queue/`.
        body: the bytes to carry.
        persistent: True asks the broker to keep it over a restart.
        expires: Unix time in milliseconds after which the broker may drop it, or None.
        headers: further STOMP headers.
    """

    queue: str
    body: bytes
    persistent: bool = True
    expires: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Message:
    """One message taken from a queue.

    Args:
        queue: name of the queue, without `/queue/`.
        body: the bytes carried.
        headers: the broker's headers.
        ack: call it once the message is dealt with; until then the broker keeps it.
        handle: what the transport needs to acknowledge it; opaque to everybody else.
    """

    queue: str
    body: bytes
    headers: Mapping[str, str]
    ack: Callable[[], None]
    handle: object = None


class Transport(Protocol):
    """A connection to one broker that mends itself."""

    @property
    def connected(self) -> bool:
        """Whether the broker can be reached at this moment."""

    def start(self) -> None:
        """Begin to connect in the background; returns at once."""

    def subscribe(self, queue: str, *, prefetch: int = 100, cumulative: bool = False) -> None:
        """Take messages of a queue; holds over reconnects."""

    def unsubscribe(self, queue: str) -> None:
        """Give the queue up; what was not acknowledged goes back to the broker."""

    def receive_many(self, limit: int, timeout: float) -> list[Message]:
        """Wait up to `timeout` seconds for a first message; return at most `limit`."""

    def send_many(self, messages: Iterable[Outgoing], *, timeout: float = 30.0) -> None:
        """Send all of them; returns when the broker has every one in its keeping.

        They are asked for one by one, each when it can be written: what raises then ends it.
        """

    def ack_many(self, messages: Sequence[Message]) -> None:
        """Acknowledge messages that are dealt with."""

    def close(self) -> None:
        """Disconnect and stop the background thread."""


class Clock(Protocol):
    """The two clocks an agent needs."""

    def wall(self) -> float:
        """Unix time in seconds; may be turned back by anybody."""

    def boot(self) -> float:
        """Seconds since boot, suspend included; never goes back."""


class BundleSource(Protocol):
    """Where received bundles are kept, sealed as they came, over a restart."""

    def load(self, domain: str) -> bytes | None:
        """The sealed bundle in force for a domain, or None."""

    def save(self, domain: str, message: bytes) -> None:
        """Keep it so that a crash leaves either the old one or the new one."""

    def domains(self) -> tuple[str, ...]:
        """The domains for which a bundle is kept."""


class StateStore(Protocol):
    """Where the trusted state is kept over a restart."""

    def load(self) -> TrustedState:
        """The state kept, or an empty one before the first bundle."""

    def save(self, state: TrustedState) -> None:
        """Keep it so that a crash leaves either the old one or the new one."""


class RootStore(Protocol):
    """The chain of roots from the pinned one to the newest, kept across restarts."""

    def load(self) -> Root:
        """The newest root, verified from the pinned one."""

    def pending(self) -> tuple[str, ...]:
        """Domains that roots have forgotten and of which it is not known that it was done."""

    def save(self, roots: Sequence[SignedRoot]) -> None:
        """Keep verified roots that follow; returns when they survive a crash."""

    def settle(self) -> None:
        """Note that everything was forgotten that the roots ask for."""


class KeyStore(Protocol):
    """The private keys of one audience."""

    @property
    def sealing(self) -> SealingKey:
        """Opens what is sealed to it."""

    @property
    def signing(self) -> SigningKey:
        """Signs what it says."""


@dataclass(frozen=True)
class SeenEntry:
    """One thing that was handled.

    Args:
        key: names it; the same for every double.
        issued: when its sender issued it, Unix time in seconds.
    """

    key: bytes
    issued: int


@dataclass(frozen=True)
class Spend:
    """One event that counts against how often somebody may publish.

    Args:
        key: names the publisher and the limit.
        at: when it was admitted, Unix time in seconds by the lease's signed time.
        until: when it counts no more.
    """

    key: bytes
    at: float
    until: float


class EventLog(Protocol):
    """The record of what was already handled: the window against doubles."""

    def __contains__(self, key: bytes) -> bool:
        """Whether this key was recorded within the window."""

    def oldest(self, now: float) -> float:
        """Unix time before which doubles can no longer be told."""

    def spent(self, key: bytes, most: int) -> tuple[float, ...]:
        """When the last events that count against a limit were admitted, at most `most` of them.

        Ordered by time. What counts no more may be among them.
        """

    def record(
        self, entries: Iterable[SeenEntry], *, now: float, spent: Iterable[Spend] = ()
    ) -> None:
        """Add entries durably, and what they count against; returns when they survive a crash.

        All of it or nothing: an event that comes again is not counted again.
        """


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided about one client and one event; no value, no payload.

    Args:
        action: `publish`, `deliver` or `subscribe`.
        client: its handle; empty where nothing of the message could be believed, or for clients
            that are counted together.
        type: event type, "" where it is not known.
        outcome: `granted`, `suppressed` (without what the client may not have) or `refused`.
        reason: one of `brokers.data.reasons`; empty where it was granted.
        epoch: encoding epoch that the event named, 0 where none was looked up.
        policies: names of the policies that granted it, as the bundle has them.
        subscriptions: the client's names of those that the event met.
        count: how many alike.
    """

    action: str
    client: str
    type: str
    outcome: str
    reason: str = ""
    epoch: int = 0
    policies: tuple[str, ...] = ()
    subscriptions: tuple[str, ...] = ()
    count: int = 1


class DecisionLog(Protocol):
    """The record of what was decided, for the control plane."""

    def tend(self, now: float, days: Mapping[str, int]) -> None:
        """Begin and end segments; call it where no batch is under way.

        Args:
            now: Unix time in seconds, by the lease's signed time.
            days: how long decisions are kept, of each domain that is served and logged.
        """

    def record(
        self, domain: str, decisions: Iterable[Decision], *, now: float, revision: int
    ) -> None:
        """Add decisions of one moment.

        They survive the death of this process at once, and that of the machine after a second.
        What finds no room is counted as lost and never stops an event.
        """


class ComparatorPort(Protocol):
    """The one party beside clients that opens order-preserving ciphertexts (paper 003, SBM-II)."""

    def compare(self, questions: Sequence[Question]) -> Sequence[int]:
        """Place each needle among its pivots; one call is one round trip.

        Raises:
            ComparatorAway: it cannot be asked, or lacks a key; asking again later may help.
            DecryptionError: a ciphertext does not open.
        """

    def close(self) -> None:
        """Disconnect; asking again connects again."""
