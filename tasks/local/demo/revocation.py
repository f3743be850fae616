"""Step 5: a customer is revoked in the console while events keep coming."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from brokers.client import Refused
from policyengine.bundles import verify_receipt
from policyengine.errors import RejectedError
from policyengine.primitives.canonical import unb64
from tasks.local import samples
from tasks.local.demo.exchange import Sent, compare, exchange
from tasks.local.demo.report import Step
from tasks.local.demo.world import World, require, wait
from tasks.local.samples import SampleEvent

CUSTOMER = "X-104211"
NEIGHBOUR = "X-104212"
_DOMAIN = "heating"
_PAUSE = 0.1


@dataclass(frozen=True)
class Timed:
    """An event that was sent, and when its sending began."""

    sent: Sent
    at: float


def revocation(step: Step, world: World) -> None:
    """5. Stops at once, new epoch by Spark, a receipt; the others miss nothing."""
    handle = world.handle((_DOMAIN, CUSTOMER))
    epoch = _epochs(world)
    stream = Stream(world)
    stream.start()
    try:
        time.sleep(1.0)
        began = time.monotonic()
        uid = _revoke(step, world)
        denied = _denied_at(world, handle)
        step.true(
            "its home agent stops delivering within the lease (30 s)",
            denied - began < 30,
            f"after {denied - began:.2f} s",
        )
        _crash_beta(step, world)
        _watch(step, world, uid)
    finally:
        sent = stream.stop()
    step.equal("events refused or lost while it ran", stream.errors[:5], [])
    _check_stream(step, world, sent, denied)
    world.oracle.revoked.add((_DOMAIN, CUSTOMER))
    world.settle(_DOMAIN, seconds=60)
    after = _epochs(world)
    step.true(
        "every agent left the old encoding epoch",
        all(max(after[name]) > max(epoch[name]) and len(after[name]) == 1 for name in after),
        f"{epoch} -> {after}",
    )
    _receipt(step, world, uid, handle)
    homes = samples.consumers(world.documents[_DOMAIN])
    exchange(step, world, "heating after it", list(samples.telemetry(homes, 9)))
    _asks_again(step, world)


class Stream(threading.Thread):
    """Publishes readings for the customer and for a neighbour, in turn, until stopped."""

    def __init__(self, world: World) -> None:
        super().__init__(name="stream", daemon=True)
        self._world = world
        self._halt = threading.Event()
        self._sent: list[Timed] = []
        self.errors: list[str] = []

    def stop(self) -> list[Timed]:
        """Stop publishing; everything that was published."""
        self._halt.set()
        self.join(60)
        return self._sent

    def run(self) -> None:
        """Publish; an error is kept for the report."""
        for event in _readings():
            if self._halt.wait(_PAUSE):
                return
            at, outcome = time.monotonic(), self._world.oracle.decide(event)
            publisher = self._world.clients.publishers[event.domain, event.publisher]
            try:
                published = publisher.publish(event.type, event.values, timeout=60.0)
            except Refused as error:
                self.errors.append(f"{event.values}: {error}")
                continue
            self._sent.append(Timed(Sent(event, published.id, outcome), at))


def _readings() -> Iterator[SampleEvent]:
    for hour in itertools.count():
        pair = samples.telemetry((CUSTOMER, NEIGHBOUR, "X-118834"), hour)
        yield from (event for event in pair if event.type != "Statistics")


def _revoke(step: Step, world: World) -> str:
    address = f"/d/{_DOMAIN}/principals/p/{CUSTOMER}/revoke/"
    page = require(world.manager.get(address), 200)
    step.true("the console first shows what would end", "What X-104211 loses" in page.words)
    form = page.form(containing="confirm")
    typo = world.manager.submit(form, {"reason": "moved away", "confirm": NEIGHBOUR})
    step.equal("another name typed revokes nobody", typo.status, 422)
    done = world.manager.submit(form, {"reason": "moved away", "confirm": CUSTOMER})
    require(done, 200)
    step.true("the right one leads to the revocation", "/revocations/" in done.url)
    return done.url.rstrip("/").rpartition("/")[2]


def _denied_at(world: World, handle: str) -> float:
    def denied() -> bool:
        status = world.agent_status("alpha")
        return handle in status.get("domains", {}).get(_DOMAIN, {}).get("denied", [])

    wait("alpha to deny the customer", denied, seconds=40, step=0.03)
    return time.monotonic()


def _crash_beta(step: Step, world: World) -> None:
    world.kill("beta")
    step.true("beta is killed (kill -9) in the middle of it", not world.part("beta").child.running)
    time.sleep(2.0)
    world.restart("beta")


def _watch(step: Step, world: World, uid: str) -> None:
    def state() -> str:
        rows = world.rows(f"revocations?domain={_DOMAIN}")
        return next(str(row["state"]) for row in rows if row["uid"] == uid)

    seconds = wait(
        "the revocation to be complete", lambda: state() == "complete", seconds=240, step=0.5
    )
    step.true("the revocation is complete", seconds < 240, f"after {seconds:.0f} s")
    jobs = world.rows(f"jobs?domain={_DOMAIN}")
    done = [job for job in jobs if job["cause"] == "revocation" and job["state"] == "done"]
    stages = sorted({stage["stage"] for job in done for stage in job["stages"]})
    rows = sum(job["rows_done"] for job in done)
    step.true(
        "Spark computed the encodings anew", bool(done) and rows > 0, f"{rows} rows, {stages}"
    )
    page = world.manager.get(f"/d/{_DOMAIN}/revocations/{uid}/").words
    step.true("the console shows it complete", "omplete" in page and CUSTOMER in page)


def _check_stream(step: Step, world: World, sent: list[Timed], denied: float) -> None:
    own = {timed.sent.publication: timed for timed in sent}
    late = [
        timed.sent.event.values
        for event in world.clients.inboxes[_DOMAIN, CUSTOMER].events
        if (timed := own.get(event.publication)) and timed.at > denied
    ]
    step.equal("events that reached the customer after its agent stopped", late[:5], [])
    before = [t for t in sent if t.at < denied and CUSTOMER in t.sent.outcome.received]
    step.true("it did receive some before", len(before) > 2, len(before))
    others = [_without_customer(timed.sent) for timed in sent]
    world_view = [one for one in others if one.outcome.received]
    step.true("events for others meanwhile", len(world_view) > 20, len(world_view))
    compare(step, world, "the others meanwhile", world_view)


def _without_customer(sent: Sent) -> Sent:
    received = {name: seen for name, seen in sent.outcome.received.items() if name != CUSTOMER}
    return replace(sent, outcome=replace(sent.outcome, received=received))


def _epochs(world: World) -> dict[str, list[int]]:
    return {
        name: sorted(map(int, world.agent_status(name)["domains"][_DOMAIN]["epochs"]))
        for name in sorted(world.agents_of(_DOMAIN))
    }


def _receipt(step: Step, world: World, uid: str, handle: str) -> None:
    page = require(world.manager.get(f"/d/{_DOMAIN}/revocations/{uid}/receipt.json"), 200)
    document = page.json()
    key = unb64(json.loads(world.layout.anchors.read_text())["receipt"])
    body = verify_receipt(document, key)
    step.equal("the receipt verifies and names the customer", body["principal"]["handle"], handle)
    enforced = sorted({n["agent"] for n in body["notices"] if n["acknowledged"]})
    step.true("and when each agent enforced it", "alpha" in enforced, ", ".join(enforced))
    step.equal("and who could not be reached", body["unreachable"], [])
    forged = {**document, "body": {**body, "encodings_replaced": body["encodings_replaced"] + 1}}
    step.true("a changed receipt does not verify", not _verifies(forged, key))


def _verifies(document: object, key: bytes) -> bool:
    try:
        verify_receipt(document, key)
    except RejectedError:
        return False
    return True


def _asks_again(step: Step, world: World) -> None:
    subscriber = world.clients.inboxes[_DOMAIN, CUSTOMER].subscriber
    try:
        subscriber.subscribe("Consumption", timeout=3.0)
        answer = "accepted"
    except Refused as refusal:
        answer = refusal.reason
    step.true(
        "a new subscription of the revoked customer is not accepted", answer != "accepted", answer
    )
