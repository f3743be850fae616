"""What handling a message needs, what it causes, and the names of what was handled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b

from brokers.data.decisions import Unserved
from brokers.data.forward import NOTHING, Forwarding, RoutingEffects
from brokers.data.limits import Tally
from brokers.data.sessions import SessionKeys
from brokers.data.subscriptions import Subscription, SubscriptionIndex
from brokers.data.window import Windows
from brokers.ports import Decision, Outgoing, Spend
from brokers.snapshot import DomainSnapshot
from policyengine.primitives.canonical import pack
from policyengine.primitives.hpke import SealingKey
from policyengine.primitives.rand import RandomSource
from policyengine.primitives.signatures import SigningKey


@dataclass(frozen=True)
class Workbench:
    """What handling a message needs beside its bytes.

    Args:
        snapshot: the domain's policy in force.
        subscriptions: of this domain, compiled against it.
        sealing_key: the agent's own, opens messages.
        signing_key: the agent's own, signs what it says.
        now: Unix time in seconds, by the lease's signed time.
        oldest: Unix time before which doubles can no longer be told.
        seen: whether a key was handled before.
        random: source of nonces.
        forwarding: what is known of the overlay; None sends every event to all agents.
        begun: handle -> name -> size of its subscriptions as this batch leaves them, where it
            changes any.
        sessions: keys of deliveries to clients; None seals every delivery for itself.
        windows: how far clients may be sent ahead; None sends everything at once.
        tally: what publishers have used of their limits, as this batch leaves it.
    """

    snapshot: DomainSnapshot
    subscriptions: SubscriptionIndex
    sealing_key: SealingKey = field(repr=False)
    signing_key: SigningKey = field(repr=False)
    now: float
    oldest: float
    seen: Callable[[bytes], bool]
    random: RandomSource
    forwarding: Forwarding | None = None
    begun: dict[str, dict[str, int]] = field(default_factory=dict)
    sessions: SessionKeys | None = field(default=None, repr=False)
    windows: Windows | None = None
    tally: Tally = field(default_factory=Tally)


@dataclass(frozen=True)
class Refusal:
    """A message that was refused.

    Args:
        kind: `publication`, `subscribe`, `confirm`, `hop`, `carried` (a hop that goes no
            further to other agents either), `backlog` or `message`.
        reason: one word.
        sender: handle or agent, "" where nothing of the message could be believed.
        type: event type as the sender wrote it.
        publication: identifier of the event or request.
        answered: True where the sender is told; otherwise the message goes aside.
    """

    kind: str
    reason: str
    sender: str = ""
    type: str = ""
    publication: str = ""
    answered: bool = False


@dataclass(frozen=True)
class Effects:
    """Everything that one message causes.

    Args:
        outgoing: what to send.
        seen: (key, issued) to record as handled.
        subscribed: subscriptions that begin.
        unsubscribed: (domain, handle, identifier) of subscriptions that end.
        refusal: set where it was refused.
        hold: set where it must wait, for a newer policy, the comparator or room at its client:
            leave it with the broker.
        counts: what to add to the agent's counters.
        routing: what it changes for routing.
        spent: what it counts against limits, to record with `seen`.
        decisions: what the decision log says of it.
        unserved: clients that want the event and whom no rule authorises.
    """

    outgoing: tuple[Outgoing, ...] = ()
    seen: tuple[tuple[bytes, int], ...] = ()
    subscribed: tuple[Subscription, ...] = ()
    unsubscribed: tuple[tuple[str, str, str], ...] = ()
    refusal: Refusal | None = None
    hold: str = ""
    counts: tuple[tuple[str, int], ...] = ()
    routing: RoutingEffects = NOTHING
    spent: tuple[Spend, ...] = ()
    decisions: tuple[Decision, ...] = ()
    unserved: Unserved | None = None


def event_key(publisher: str, publication: str, part: int) -> bytes:
    """Names a part for the window against doubles; a publisher can only name its own."""
    packed = pack(publisher.encode(), publication.encode(), b"%d" % part)
    return blake2b(packed, digest_size=16).digest()


def request_key(client: str, request: str) -> bytes:
    """Names a client's request for the window against doubles."""
    packed = pack(b"request", client.encode(), request.encode())
    return blake2b(packed, digest_size=16).digest()
