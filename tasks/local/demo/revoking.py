"""What revocations have in common: asked for in the console, watched, and proved by a receipt."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from brokers.adapters.files import BundleFolder, Keys
from brokers.adapters.rootfile import load_anchors
from brokers.client import Refused
from brokers.control.identity import Identity
from brokers.control.intake import open_from_disk
from policyengine.bundles import AgentContent, verify_receipt
from policyengine.errors import RejectedError
from tasks.local.clients import Name
from tasks.local.demo.exchange import Sent
from tasks.local.demo.report import Step
from tasks.local.demo.world import World, require, wait
from tasks.local.samples import SampleEvent

LEASE_SECONDS = 30
_PAUSE = 0.1


@dataclass(frozen=True)
class Timed:
    """An event that was sent, and when its sending began."""

    sent: Sent
    at: float


class Stream(threading.Thread):
    """Publishes events one after the other until it is stopped."""

    def __init__(self, world: World, events: Iterable[SampleEvent]) -> None:
        super().__init__(name="stream", daemon=True)
        self._world, self._events = world, events
        self._halt = threading.Event()
        self._sent: list[Timed] = []
        self.errors: list[str] = []

    def stop(self) -> list[Timed]:
        """Stop publishing; everything that was published."""
        self._halt.set()
        self.join(60)
        return self._sent

    def wait_for(self, count: int) -> None:
        """Wait until so many were published or refused."""
        wait(
            "events to be published",
            lambda: len(self._sent) + len(self.errors) >= count,
            seconds=240,
        )

    def run(self) -> None:
        """Publish; an error is kept for the report."""
        for event in self._events:
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


@dataclass(frozen=True)
class Held:
    """What an agent holds of a domain, by its own disk, opened with its own keys.

    Args:
        epochs: numbers of the encoding epochs.
        subjects: handle -> its encodings, all epochs together.
        encodings: every encoding, those of rules included.
    """

    epochs: tuple[int, ...]
    subjects: dict[str, frozenset[bytes]]
    encodings: frozenset[bytes]


def held(world: World, agent: str, domain: str) -> Held:
    """What is in force at an agent, and would be after a restart."""
    message = BundleFolder(world.layout.agent(agent) / "bundles").load(domain)
    assert message is not None, f"{agent} keeps no bundle of {domain}"
    keys = Keys.load(world.layout.agent(agent) / "keys.json")
    identity = Identity(f"agent:{agent}", keys.sealing, load_anchors(world.layout.anchors))
    _, content = open_from_disk(message, domain=domain, identity=identity)
    assert isinstance(content, AgentContent)
    subjects: dict[str, frozenset[bytes]] = {}
    for epoch in content.epochs:
        for subject in epoch.subjects:
            known = subjects.get(subject.handle, frozenset())
            subjects[subject.handle] = known | frozenset(subject.encoded)
    rules = [rule.encoded for epoch in content.epochs for rule in epoch.rules if rule.encoded]
    return Held(
        tuple(sorted(epoch.epoch for epoch in content.epochs)),
        subjects,
        frozenset(rules).union(*subjects.values()),
    )


def revoke(step: Step, world: World, name: Name, *, reason: str, typo: str) -> str:
    """Revoke a principal in the console, `typo` confirmed first; the revocation's identifier."""
    domain, principal = name
    address = f"/d/{domain}/principals/p/{principal}/revoke/"
    page = require(world.manager.get(address), 200)
    step.true("the console first shows what would end", f"What {principal} loses" in page.words)
    form = page.form(containing="confirm")
    wrong = world.manager.submit(form, {"reason": reason, "confirm": typo})
    step.equal("another name typed revokes nobody", wrong.status, 422)
    done = world.manager.submit(form, {"reason": reason, "confirm": principal})
    require(done, 200)
    step.true("the right one leads to the revocation", "/revocations/" in done.url)
    return done.url.rstrip("/").rpartition("/")[2]


def denied_at(world: World, domain: str, handle: str, agents: Iterable[str]) -> float:
    """Wait until these agents say that they deny a client; the moment."""
    for agent in agents:

        def denied(agent: str = agent) -> bool:
            status = world.agent_status(agent)
            return handle in status.get("domains", {}).get(domain, {}).get("denied", [])

        wait(f"{agent} to deny the revoked party", denied, seconds=120, step=0.03)
    return time.monotonic()


def complete(step: Step, world: World, name: Name, uid: str) -> dict[str, Any]:
    """Wait until a revocation is complete; the run that it asked for, as the API shows it."""
    domain, principal = name

    def state() -> str:
        rows = world.rows(f"revocations?domain={domain}")
        return next(str(row["state"]) for row in rows if row["uid"] == uid)

    seconds = wait(
        "the revocation to be complete", lambda: state() == "complete", seconds=240, step=0.5
    )
    step.true("the revocation is complete", seconds < 240, f"after {seconds:.0f} s")
    page = world.manager.get(f"/d/{domain}/revocations/{uid}/").words
    step.true("the console shows it complete", "omplete" in page and principal in page)
    runs = [row for row in world.rows(f"jobs?domain={domain}") if row["cause"] == "revocation"]
    step.equal("one run over encodings was asked for, and is done", _states(runs), ["done"])
    return runs[0]


def _states(runs: Iterable[dict[str, Any]]) -> list[str]:
    return [str(run["state"]) for run in runs]


def receipt(step: Step, world: World, name: Name, uid: str, handle: str) -> dict[str, Any]:
    """Check the receipt as somebody who has it as a file and the public key; what it says."""
    domain, _ = name
    page = require(world.manager.get(f"/d/{domain}/revocations/{uid}/receipt.json"), 200)
    document = page.json()
    key = load_anchors(world.layout.anchors).receipt
    body = verify_receipt(document, key)
    step.equal("the receipt verifies and names the party", body["principal"]["handle"], handle)
    party = next(p for p in world.documents[domain]["principals"] if p["name"] == name[1])
    enforced = {n["agent"] for n in body["notices"] if n["acknowledged"]}
    step.true(  # others may stand in for a home agent that is away, and are told too
        "and when each home agent enforced it",
        enforced >= set(party["agents"].values()),
        ", ".join(sorted(enforced)),
    )
    step.equal("and who could not be reached", body["unreachable"], [])
    forged = {**document, "body": {**body, "encodings_replaced": body["encodings_replaced"] + 1}}
    step.true("a changed receipt does not verify", not _verifies(forged, key))
    return dict(body)


def _verifies(document: object, key: bytes) -> bool:
    try:
        verify_receipt(document, key)
    except RejectedError:
        return False
    return True


def epochs(world: World, domain: str) -> dict[str, list[int]]:
    """The encoding epochs that each agent says it has."""
    return {
        name: sorted(map(int, world.agent_status(name)["domains"][domain]["epochs"]))
        for name in sorted(world.agents_of(domain))
    }
