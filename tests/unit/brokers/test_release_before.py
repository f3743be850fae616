"""Agents of this release on what the release before left, and records that only grew."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from brokers.adapters.control_link import ControlLink
from brokers.adapters.files import BundleFolder, Keys, RoutingFile, StateFile, SubscriptionFile
from brokers.adapters.rootfile import kept_roots, load_pinned
from brokers.agent.policy import PolicyInForce, Progress
from brokers.control.routing import Routes
from brokers.control.sync import Identity
from policyengine.bundles import (
    REQUESTS_QUEUE,
    Acknowledgement,
    Lease,
    LeaseRequest,
    Notice,
    control_queue,
    decode_request,
    encode_control,
    seal_lease,
    seal_notice,
    verify_ack,
    verify_lease_request,
)
from policyengine.primitives.canonical import loads
from policyengine.primitives.signatures import sign
from tests.support.memory_broker import MemoryBroker, MemoryTransport
from tests.support.release_before import BEFORE, Reader
from tests.vectors import generate_release as release
from tests.vectors.generate_release import AGENT, DOMAIN, organisation

NOW = time.time()
HELD = {"p-air", "p-anna", "p-ben"}


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.boot_time = 100.0

    def wall(self) -> float:
        return NOW

    def boot(self) -> float:
        return self.boot_time


class Upgraded:
    """This release's agent, on a copy of the folder of the release before."""

    def __init__(self, folder: Path) -> None:
        shutil.copytree(BEFORE / "agent", folder)
        (folder / "keys.json").chmod(0o600)
        self.folder, self.clock, self.broker = folder, Clock(), MemoryBroker()
        self.keys = Keys.load(folder / "keys.json")
        pinned = load_pinned(folder / "anchors.json")
        self.policy = PolicyInForce(
            agent="alpha",
            overlay="a",
            sealing_key=self.keys.sealing,
            subscription_file=SubscriptionFile(folder / "subscriptions.json"),
            progress=Progress(),
        )
        self.link = ControlLink(
            transport=MemoryTransport(self.broker),
            identity=Identity(AGENT, self.keys.sealing, pinned.anchors),
            signing_key=self.keys.signing,
            bundles=BundleFolder(folder / "bundles"),
            state_file=StateFile(folder / "trusted.json", AGENT),
            roots=kept_roots(folder / "roots.json", pinned),
            clock=self.clock,
            applier=self.policy,
        )
        self.link.restore()
        self.link.listen()

    def said(self, kind: str) -> list[Any]:
        """The requests of one kind that it sent since the last call, verified."""
        bodies = self.broker.bodies(REQUESTS_QUEUE)
        self.broker.queues.pop(REQUESTS_QUEUE, None)
        verify = {"lease": verify_lease_request, "ack": verify_ack}[kind]
        found = [decode_request(body) for body in bodies]
        return [verify(one, self.keys.signing.public) for one in found if one.kind == kind]

    def hears(self, kind: str, domain: str, message: bytes) -> None:
        """A message of the control plane, and two rounds."""
        self.broker.put(control_queue(AGENT), encode_control(kind, domain, message))
        self.link.step(0)
        self.link.step(0)


def _lease(asked: LeaseRequest, *, notice: int) -> bytes:
    """As the control plane of the release before answers: it knows of no root."""
    lease = Lease(
        audience=AGENT,
        nonce=asked.nonce,
        time=NOW,
        seconds={DOMAIN: 30},
        domains={DOMAIN: {"minimum_revision": 7, "minimum_notice": notice}},
    )
    return _sealed(seal_lease, lease, "lease")


def _sealed(seal: Any, record: Any, role: str) -> bytes:
    made = organisation()
    key = getattr(made.authority, role)
    recipient = made.agents["alpha"].keys.sealing.public
    return seal(record, sign=lambda context, body: sign(key, context, body), recipient=recipient)


def test_an_agent_goes_on_where_the_release_before_left_it(tmp_path: Path) -> None:
    agent = Upgraded(tmp_path / "agent")
    held = agent.link.view.state
    assert not agent.link.rejections
    assert held.revisions[DOMAIN].revision == 7
    assert (held.notices, held.early) == ({DOMAIN: 2}, {DOMAIN: frozenset({4})})
    assert held.floors == {}
    # who was taken out stays out, and nobody else
    snapshot = agent.policy.domains[DOMAIN].snapshot
    assert snapshot.denied == {"p-ben"}
    assert set(snapshot.clients) == HELD
    assert {one.handle for one in agent.policy.own_subscriptions(DOMAIN)} == {"p-anna", "p-ben"}
    # nothing is served before a lease, and then what the release before served
    assert agent.link.standing(DOMAIN) == "no-lease"
    agent.link.step(0)
    (asked,) = agent.said("lease")
    assert asked.held[DOMAIN]["revision"] == 7
    assert asked.held[DOMAIN]["notice"] == 2
    agent.hears("lease", "", _lease(asked, notice=2))
    assert agent.link.standing(DOMAIN) == "serving"
    # the notice that was missing closes the gap to the one that came early
    agent.link.ask_soon()
    agent.link.step(0)
    (asked,) = agent.said("lease")
    agent.hears("lease", "", _lease(asked, notice=4))
    assert agent.link.standing(DOMAIN) == "behind-notice"
    third = Notice(3, AGENT, DOMAIN, "r-3", ("p-anna",), "left", int(NOW))
    agent.hears("notice", DOMAIN, _sealed(seal_notice, third, "notice"))
    assert agent.link.standing(DOMAIN) == "serving"
    assert agent.policy.domains[DOMAIN].snapshot.denied == {"p-anna", "p-ben"}


def test_what_it_says_there_the_release_before_reads(tmp_path: Path) -> None:
    """A control plane of the release before refuses a question that it does not know in silence."""
    agent, reader = Upgraded(tmp_path / "agent"), Reader()
    answered = []
    for _ in range(6):
        agent.link.ask_soon()
        agent.link.step(0)
        for body in agent.broker.bodies(REQUESTS_QUEUE):
            request = decode_request(body)
            assert request.kind in reader.requests
            if reader.reads("LeaseRequest", request.body):
                answered.append(verify_lease_request(request, agent.keys.signing.public))
        agent.broker.queues.pop(REQUESTS_QUEUE, None)
        agent.clock.boot_time += 5
    assert answered
    agent.hears("lease", "", _lease(answered[-1], notice=2))
    assert agent.link.standing(DOMAIN) == "serving"
    # from then on every question is one that it reads
    for _ in range(10):
        agent.said("lease")
        agent.link.ask_soon()
        agent.link.step(0)
        (request,) = map(decode_request, agent.broker.bodies(REQUESTS_QUEUE))
        assert reader.reads("LeaseRequest", request.body)
        asked = verify_lease_request(request, agent.keys.signing.public)
        agent.hears("lease", "", _lease(asked, notice=2))
        assert agent.link.standing(DOMAIN) == "serving"
        agent.clock.boot_time += 5


def test_acknowledgements_are_as_the_release_before_reads_them(tmp_path: Path) -> None:
    agent, reader = Upgraded(tmp_path / "agent"), Reader()
    sealed = organisation().bundle(
        AGENT, 8, previous=agent.link.view.state.revisions[DOMAIN].digest
    )
    agent.hears("bundle", DOMAIN, sealed.message)
    requests = [decode_request(body) for body in agent.broker.bodies(REQUESTS_QUEUE)]
    acks = [one for one in requests if one.kind == "ack"]
    assert [loads(one.body)["status"] for one in acks] == ["received", "applied"]
    assert all(reader.reads("Acknowledgement", one.body) for one in acks)
    assert isinstance(verify_ack(acks[-1], agent.keys.signing.public), Acknowledgement)


def test_put_back_the_release_before_reads_what_this_one_kept(tmp_path: Path) -> None:
    """Without anything new of this release an agent can be put back to the one before."""
    agent, reader = Upgraded(tmp_path / "agent"), Reader()
    third = Notice(3, AGENT, DOMAIN, "r-3", ("p-anna",), "left", int(NOW))
    agent.hears("notice", DOMAIN, _sealed(seal_notice, third, "notice"))
    sealed = organisation().bundle(AGENT, 8)
    agent.hears("bundle", DOMAIN, sealed.message)
    kept = (agent.folder / "trusted.json").read_bytes()
    assert reader.reads("_Stored", kept)
    assert loads(kept)["revisions"][DOMAIN]["revision"] == 8
    assert (agent.folder / "bundles" / "flights.bundle").read_bytes() == sealed.message
    assert not (agent.folder / "roots.json").exists()


def test_an_overlays_routes_are_taken_up() -> None:
    states = RoutingFile(BEFORE / "agent" / "routing.json").load()
    routes = Routes("alpha", DOMAIN)
    routes.restore(states[DOMAIN])
    assert routes.to_json() == states[DOMAIN]


def test_records_only_grew_by_members_that_may_be_missing() -> None:
    now, before = release.shapes(), Reader().records
    for name, shape in before.items():
        assert sorted(now[name]["members"]) == sorted(shape["members"]), name
        assert set(now[name]["later"]) >= set(shape["later"]), name
        for member, inner in shape["inside"].items():
            assert now[name]["inside"][member] == inner, f"{name}.{member}"


def test_kinds_of_frames_are_only_added() -> None:
    now = release.records()
    for kinds in ("control", "requests", "clients"):
        assert set(now[kinds]) >= set(Reader().document[kinds])


@pytest.mark.parametrize("name", Reader().document["vectors"])
def test_the_golden_vectors_of_the_release_before_still_stand(name: str) -> None:
    """Each is read by this release: the tests beside the vectors open every one of them."""
    assert set(release.vectors()[name]) >= set(Reader().document["vectors"][name])


def test_what_the_next_release_is_held_against_can_be_written(tmp_path: Path) -> None:
    release.main(tmp_path)
    files = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    assert files == {path.relative_to(BEFORE) for path in BEFORE.rglob("*") if path.is_file()}
