"""Events for which a client has no room yet: put away, and taken out again. No I/O."""

from __future__ import annotations

from hashlib import blake2b

from brokers.data import decisions
from brokers.data.bench import Effects, Refusal, Workbench, event_key
from brokers.data.deliver import Addressed, deliver
from brokers.data.ranges import accept_ranges
from brokers.data.reasons import (
    COMPARATOR_AWAY,
    EPOCH_UNKNOWN,
    MALFORMED,
    NO_ROOM,
    POLICY_ENDED,
    REVOKED,
    UNKNOWN_TYPE,
    refuse,
)
from brokers.ports import ComparatorAway, Outgoing
from brokers.snapshot import DomainSnapshot
from policyengine.bundles import RoutedPart, backlog_queue, open_waiting, seal_waiting
from policyengine.errors import DecodeError, RejectedError
from policyengine.primitives.canonical import pack, unpack

_DRAINING = "draining"
_WAIT = frozenset({EPOCH_UNKNOWN, POLICY_ENDED, UNKNOWN_TYPE})


def share_out(
    bench: Workbench, routed: RoutedPart, deliveries: list[Addressed]
) -> tuple[list[Addressed], list[Outgoing]]:
    """Part deliveries that may be sent now from those that have to wait here.

    Args:
        bench: see `Workbench`.
        routed: the event's part.
        deliveries: who is to get it.

    What is for a client of which a newer policy must be waited for waits too.

    Returns:
        The deliveries to send, and messages to the backlogs of the others.
    """
    windows, snapshot = bench.windows, bench.snapshot
    if windows is None:
        # INVARIANT: who lost something gets nothing before a policy that knows it.
        return [one for one in deliveries if one.handle not in snapshot.held], []
    key = event_key(routed.publisher, routed.publication, routed.part)
    now: list[Addressed] = []
    later: list[Outgoing] = []
    sealed = b""
    for one in deliveries:
        place = (snapshot.domain, one.handle)
        held = one.handle in snapshot.held
        if held and not windows.knows(place):
            continue  # nothing can wait for a client that confirms nothing
        if not held and windows.may_send(place, key):
            now.append(one)
            continue
        sealed = sealed or seal_waiting(
            routed,
            signing_key=bench.signing_key,
            recipient=bench.sealing_key.public,
            agent=snapshot.agent,
        )
        later.append(backlog_item(snapshot, one.handle, windows.put(place), sealed))
    return now, later


def backlog_item(
    snapshot: DomainSnapshot, handle: str, name: bytes, sealed: bytes = b""
) -> Outgoing:
    """A message to a client's backlog.

    Args:
        snapshot: the domain's policy in force.
        handle: the client.
        name: from `Windows.put`.
        sealed: from `seal_waiting`; empty for a marker.
    """
    queue = backlog_queue(snapshot.agent, snapshot.domain, handle)
    return Outgoing(queue, pack(name, sealed))


def retiring(snapshot: DomainSnapshot) -> bool:
    """Whether something is in force that will soon open nothing any more."""
    states = [one.state for one in snapshot.epochs.values()]
    states += [one.state for one in snapshot.attribute_keys.values()]
    states += [one.state for one in snapshot.blind.values()]
    return _DRAINING in states


def _retires(snapshot: DomainSnapshot, routed: RoutedPart) -> bool:
    """Whether a part can be decided or read only as long as an epoch lasts that is ending."""
    epoch = snapshot.epochs.get(routed.epoch)
    if epoch is not None and epoch.state == _DRAINING:
        return True
    used = {(name, int(held.partition(":")[0])) for keys in routed.sealed.values()
            for name, held in keys.items()}  # fmt: skip
    held_keys = (snapshot.attribute_keys.get(place) for place in used)
    if any(key is not None and key.state == _DRAINING for key in held_keys):
        return True
    return bool(routed.blind) and any(one.state == _DRAINING for one in snapshot.blind.values())


def readable(snapshot: DomainSnapshot, handle: str) -> bool:
    """Whether a client's backlog may be read at all: it is not waiting for a newer policy."""
    return handle not in snapshot.held


def served(snapshot: DomainSnapshot, handle: str) -> bool:
    """Whether a client may have anything of this agent."""
    return handle in snapshot.clients and handle not in snapshot.denied


def take_out(bench: Workbench, handle: str, body: bytes) -> tuple[Effects, list[Addressed]]:
    """Decide anew about what waits for a client.

    Whoever may have it is asked again: rules, conditions, notices and subscriptions count as
    they are now. What was put away for somebody who may not have it any more goes nowhere.

    Args:
        bench: see `Workbench`.
        handle: whose backlog it comes from.
        body: from `backlog_item`.

    Returns:
        What it causes, and the delivery to seal where there is one.
    """
    try:
        name, sealed = unpack(body, 2)
    except DecodeError:
        return Effects(refusal=Refusal("backlog", MALFORMED)), []
    place, windows = (bench.snapshot.domain, handle), bench.windows
    if windows is None:
        return Effects(hold=NO_ROOM), []
    effects, deliveries = _taken_out(bench, handle, sealed)
    if not effects.hold:
        windows.came_out(place, name, bench.now)
    return effects, deliveries


def _taken_out(bench: Workbench, handle: str, sealed: bytes) -> tuple[Effects, list[Addressed]]:
    snapshot, windows = bench.snapshot, bench.windows
    place = (snapshot.domain, handle)
    if not sealed:
        return Effects(), []
    if handle in snapshot.held:
        return Effects(hold=POLICY_ENDED), []
    if not served(snapshot, handle):
        refused = (decisions.taken_out(handle, "", REVOKED),)
        return Effects(counts=(("backlog_dropped", 1),), decisions=refused), []
    try:
        routed = open_waiting(
            sealed,
            key=bench.sealing_key,
            public=bench.signing_key.public,
            agent=snapshot.agent,
        )
    except RejectedError as error:
        return Effects(refusal=Refusal("backlog", error.reason)), []
    try:
        key = event_key(routed.publisher, routed.publication, routed.part)
        once = blake2b(pack(b"backlog", handle.encode(), key), digest_size=16).digest()
        if bench.seen(once):
            return Effects(counts=(("duplicates", 1),)), []
        if windows is None or not (windows.room(place) or _retires(snapshot, routed)):
            return Effects(hold=NO_ROOM), []
        _check(snapshot, routed)
        found = deliver(snapshot, routed, bench.subscriptions, now=bench.now, only=handle)
    except ComparatorAway:
        return Effects(hold=COMPARATOR_AWAY), []
    except RejectedError as error:
        if error.reason in _WAIT:
            return Effects(hold=error.reason), []
        named = Refusal("backlog", error.reason, routed.publisher, routed.type, routed.publication)
        return Effects(refusal=named), []
    for _ in found:
        windows.take(place, key)
    done = ("delivered", len(found)) if found else ("backlog_dropped", 1)
    noted = tuple(one.decision for one in found)
    counts = (("taken_out", 1), done)
    return Effects(seen=((once, int(bench.now)),), counts=counts, decisions=noted), found


def _check(snapshot: DomainSnapshot, routed: RoutedPart) -> None:
    if (routed.domain, routed.overlay) != (snapshot.domain, snapshot.overlay):
        refuse(MALFORMED, "the part is for another domain or overlay")
    if routed.publisher in snapshot.denied:
        refuse(REVOKED, "the publisher was revoked")
    if routed.type not in snapshot.specs:
        refuse(UNKNOWN_TYPE, "the event's type does not exist in this domain")
    accept_ranges(snapshot, routed)
