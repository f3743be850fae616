"""Step 5: a customer and then a publisher are revoked in the console while events keep coming."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

from brokers.client import Refused
from tasks.local import samples
from tasks.local.demo import revoking
from tasks.local.demo.exchange import Sent, compare, exchange
from tasks.local.demo.report import Step
from tasks.local.demo.revoking import LEASE_SECONDS, Held, Stream, Timed
from tasks.local.demo.story import selection
from tasks.local.demo.world import World, wait
from tasks.local.samples import SampleEvent

CUSTOMER = ("heating", "X-104211")
NEIGHBOUR = "X-104212"
AIRPORT = ("flights", "lga")
"""It publishes, so it held the keys that events are tagged under."""
_ENOUGH = 60
"""So many events at least are published meanwhile."""


def customer(step: Step, world: World) -> None:
    """5. Who only received: stops at once, its own encodings go, the others' stay as they are."""
    domain, _ = CUSTOMER
    handle = world.handle(CUSTOMER)
    before = _held_by_all(world, domain)
    epochs = revoking.epochs(world, domain)
    stream = Stream(world, _readings())
    stream.start()
    try:
        time.sleep(1.0)
        began = time.monotonic()
        uid = revoking.revoke(step, world, CUSTOMER, reason="moved away", typo=NEIGHBOUR)
        denied = revoking.denied_at(world, domain, handle, _homes(world, *CUSTOMER))
        _within_the_lease(step, denied - began)
        run = revoking.complete(step, world, CUSTOMER, uid)
        stream.wait_for(_ENOUGH)
    finally:
        sent = stream.stop()
    step.equal("the run was over this customer's encodings alone", run["scope"], "subjects")
    step.equal("events refused or lost while it ran", stream.errors[:5], [])
    _check_stream(step, world, sent, denied)
    world.oracle.revoked.add(CUSTOMER)
    world.settle(domain)
    step.equal("every agent stays in its encoding epoch", revoking.epochs(world, domain), epochs)
    _check_held(step, world, handle, before)
    body = revoking.receipt(step, world, CUSTOMER, uid, handle)
    own = sum(len(each.subjects.get(handle, ())) for each in before.values())
    step.equal("and how many encodings went", body["encodings_replaced"], own)
    step.equal("and that no epoch changed", body["epochs"], {"from": None, "to": None})
    homes = samples.consumers(world.documents[domain])
    exchange(step, world, "heating after it", list(samples.telemetry(homes, 9)))
    _asks_again(step, world)


def publisher(step: Step, world: World) -> None:
    """5, continued. Who held keys: refused at once, all encoded anew by Spark, a new epoch."""
    domain, _ = AIRPORT
    handle = world.handle(AIRPORT)
    before, epochs = _held_by_all(world, domain), revoking.epochs(world, domain)
    departures = [event for event in samples.day(1, 5) if event.type == "Departure"]
    own = next(event for event in departures if event.publisher == AIRPORT[1])
    others = [event for event in departures if event.publisher != AIRPORT[1]]
    stream = Stream(world, itertools.cycle(others))
    stream.start()
    try:
        began = time.monotonic()
        uid = revoking.revoke(step, world, AIRPORT, reason="closed down", typo="jfk")
        denied = revoking.denied_at(world, domain, handle, _homes(world, *AIRPORT))
        _within_the_lease(step, denied - began)
        _refused(step, world, handle, own, {"revoked", "unknown-publisher"})
        _crash_beta(step, world)
        run = revoking.complete(step, world, AIRPORT, uid)
        stream.wait_for(_ENOUGH)
    finally:
        sent = stream.stop()
    world.oracle.revoked.add(AIRPORT)
    stages = {stage["stage"] for stage in run["stages"]}
    step.true(
        "Spark computed all encodings anew",
        run["scope"] == "all" and {"reading", "encoding", "writing", "verifying"} <= stages,
        f"{run['rows_done']} rows, {sorted(stages)}",
    )
    step.equal("events refused or lost while it ran", stream.errors[:5], [])
    step.true("events of the other airports meanwhile", len(sent) > 20, len(sent))
    compare(step, world, "the others meanwhile", [timed.sent for timed in sent])
    world.settle(domain)
    after = revoking.epochs(world, domain)
    step.true(
        "every agent left the old encoding epoch",
        all(max(after[name]) > max(epochs[name]) and len(after[name]) == 1 for name in after),
        f"{epochs} -> {after}",
    )
    now = _held_by_all(world, domain)
    kept = {name: len(now[name].encodings & before[name].encodings) for name in now}
    step.equal("and keeps no encoding of it", kept, dict.fromkeys(kept, 0))
    body = revoking.receipt(step, world, AIRPORT, uid, handle)
    step.equal("and how many encodings were replaced", body["encodings_replaced"], run["rows_done"])
    moved = {"from": max(epochs["beta"]), "to": max(after["beta"])}
    step.equal("and the epochs", body["epochs"], moved)
    switched = sorted(entry["agent"] for entry in body["switches"] if entry["switched"])
    step.equal("and which agents switched", switched, sorted(after))
    _refused(step, world, handle, own, {"unknown-publisher"})
    following = world.remaining(selection(1, 5))
    exchange(step, world, "flights after it", following[:60])


def _readings() -> Iterator[SampleEvent]:
    for hour in itertools.count():
        pair = samples.telemetry((CUSTOMER[1], NEIGHBOUR, "X-118834"), hour)
        yield from (event for event in pair if event.type != "Statistics")


def _homes(world: World, domain: str, name: str) -> list[str]:
    principals = world.documents[domain]["principals"]
    agents = next(one["agents"] for one in principals if one["name"] == name)
    return sorted(agents.values())


def _held_by_all(world: World, domain: str) -> dict[str, Held]:
    return {name: revoking.held(world, name, domain) for name in sorted(world.agents_of(domain))}


def _within_the_lease(step: Step, seconds: float) -> None:
    step.true(
        f"its home agents stop within the lease ({LEASE_SECONDS} s)",
        seconds < LEASE_SECONDS,
        f"after {seconds:.2f} s",
    )


def _crash_beta(step: Step, world: World) -> None:
    world.kill("beta")
    step.true("beta is killed (kill -9) in the middle of it", not world.part("beta").child.running)
    time.sleep(2.0)
    world.restart("beta")


def _check_stream(step: Step, world: World, sent: list[Timed], denied: float) -> None:
    domain, name = CUSTOMER
    own = {timed.sent.publication: timed for timed in sent}
    late = [
        timed.sent.event.values
        for event in world.clients.inboxes[domain, name].events
        if (timed := own.get(event.publication)) and timed.at > denied
    ]
    step.equal("events that reached the customer after its agent stopped", late[:5], [])
    before = [t for t in sent if t.at < denied and name in t.sent.outcome.received]
    step.true("it did receive some before", len(before) > 2, len(before))
    meant = [t for t in sent if t.at > denied and name in t.sent.outcome.received]
    step.true("and would have received more", len(meant) > 2, len(meant))
    others = [_without_customer(timed.sent) for timed in sent]
    world_view = [one for one in others if one.outcome.received]
    step.true("events for others meanwhile", len(world_view) > 20, len(world_view))
    compare(step, world, "the others meanwhile", world_view)


def _without_customer(sent: Sent) -> Sent:
    received = {name: seen for name, seen in sent.outcome.received.items() if name != CUSTOMER[1]}
    return replace(sent, outcome=replace(sent.outcome, received=received))


def _check_held(step: Step, world: World, handle: str, before: dict[str, Held]) -> None:
    """The customer's rows are gone wherever they stood; of everything else nothing changed."""
    domain, _ = CUSTOMER
    after = _held_by_all(world, domain)
    stood = {name: handle in held.subjects for name, held in before.items()}
    step.equal("the customer's encodings stood at its home agent", stood, _at_homes(world, stood))
    gone = {name: handle not in held.subjects for name, held in after.items()}
    step.equal("and are gone", gone, dict.fromkeys(gone, True))
    untouched = {
        name: {h: e for h, e in held.subjects.items() if h != handle} == after[name].subjects
        for name, held in before.items()
    }
    step.equal(
        "everybody else's are the same, byte for byte", untouched, dict.fromkeys(untouched, True)
    )


def _at_homes(world: World, agents: Iterable[str]) -> dict[str, bool]:
    homes = _homes(world, *CUSTOMER)
    return {name: name in homes for name in agents}


def _asks_again(step: Step, world: World) -> None:
    subscriber = world.clients.inboxes[CUSTOMER].subscriber
    try:
        subscriber.subscribe("Consumption", timeout=3.0)
        answer = "accepted"
    except Refused as refusal:
        answer = refusal.reason
    step.true(
        "a new subscription of the revoked customer is not accepted", answer != "accepted", answer
    )


def _refused(step: Step, world: World, handle: str, event: SampleEvent, reasons: set[str]) -> None:
    """The revoked publisher's event is not accepted, and its home agent says why."""
    known = len(_told(world, handle))
    try:
        world.clients.publishers[AIRPORT].publish(event.type, event.values, timeout=3.0)
        answer = "accepted"
    except Refused as refusal:
        answer = refusal.reason
    step.true("an event of the revoked publisher is not accepted", answer != "accepted", answer)
    # Whoever is not known any more is not answered; the agent counts the refusal all the same.
    wait("beta to tell of the refusal", lambda: len(_told(world, handle)) > known, seconds=60)
    reason = _told(world, handle)[0]
    step.true("and beta says why", reason in reasons, reason)


def _told(world: World, handle: str) -> list[str]:
    """Why beta refused what somebody sent, the last first."""
    last = world.agent_status("beta")["last_refusals"]
    return [str(entry["reason"]) for entry in last if entry["sender"] == handle]
