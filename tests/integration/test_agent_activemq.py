"""Real agent processes and real clients on real ActiveMQ brokers."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from brokers.adapters.stomp import StompTransport
from brokers.client import Handle, ProfileError, Refused, Subscriber
from policyengine.bundles import dead_queue, hop_queue, publish_queue
from policyengine.errors import InputError
from policyengine.primitives.signatures import generate_signing_key
from tasks.local.activemq import ActiveMQ, write_brokers_file
from tests.support.agent_processes import AgentProcess, World, received
from tests.support.data_plane import PATIENCE, wait_until

pytestmark = pytest.mark.activemq

BrokersFiles = Callable[[str], Path]


@pytest.fixture
def world(tmp_path: Path, brokers_file: BrokersFiles) -> Iterator[World]:
    made = World.make(tmp_path, brokers_file)
    yield made
    made.close()


FLIGHT = {"carrier": "UA", "origin": "EWR", "delay": 130, "tail": "N14228"}


def test_each_subscriber_gets_what_the_plain_policies_say(world: World) -> None:
    world.start()
    readers = ("p-ua", "p-dl", "p-faa", "p-nobody")
    subscribers = {short: world.subscriber(short) for short in readers}
    for subscriber in subscribers.values():
        subscriber.subscribe("Flight", timeout=PATIENCE)
    events = [
        ("Flight", FLIGHT),
        ("Departure", {**FLIGHT, "carrier": "DL", "gate": "B7", "delay": 5}),
        ("Departure", {**FLIGHT, "carrier": "DL", "delay": 500}),
        ("Flight", {**FLIGHT, "carrier": "AA", "delay": -3}),
    ]
    publisher = world.publisher("p-airport")
    published = [publisher.publish(kind, values, timeout=PATIENCE) for kind, values in events]
    for short, subscriber in subscribers.items():
        rights = [world.organisation.readable(world.name(short), *event) for event in events]
        count = len(rights) - rights.count(None)
        got = {event.publication: event for event in received(subscriber, count)}
        for sent, (kind, values), readable in zip(published, events, rights, strict=True):
            if readable is None:
                assert sent.id not in got
                continue
            event = got.pop(sent.id)
            assert event.type == kind
            assert event.attributes == {name: values[name] for name in readable}
            assert event.withheld == dict.fromkeys(set(values) - readable, "not-permitted")
            assert event.publisher == world.name("p-airport")
        assert not got


def test_publishers_are_restricted_and_refused(world: World) -> None:
    world.start()
    kiosk, nobody = world.publisher("p-kiosk"), world.publisher("p-nobody")
    done = kiosk.publish("Departure", {"carrier": "UA", "gate": "A1", "delay": 9}, timeout=PATIENCE)
    assert done.dropped == ("delay",)
    for kind, values, reason in [
        ("Zeppelin", {"carrier": "UA"}, "unknown-type"),
        ("Flight", {"carrier": "UA"}, "not-authorised"),
        ("Departure", {"carrier": 7}, "malformed"),
    ]:
        with pytest.raises(Refused) as refused:
            kiosk.publish(kind, values, timeout=PATIENCE)
        assert refused.value.reason == reason
    with pytest.raises(Refused, match="no policy lets"):
        nobody.publish("Flight", FLIGHT, timeout=PATIENCE)
    # It answers first and counts afterwards.
    once = {"unknown-type": 1, "not-authorised": 1, "malformed": 1}
    wait_until(
        lambda: world.agents["beta"].domain("flights")["refusals"] == once, "them to be counted"
    )
    last = world.agents["beta"].status()["last_refusals"]
    assert {"unknown-type", "not-authorised", "malformed"} == {one["reason"] for one in last}


class Load:
    """Publishes without a pause and reads everything, until it is told to stop."""

    def __init__(self, world: World) -> None:
        self.sent: dict[str, list[Handle]] = {"p-ua": [], "p-dl": []}
        self.got: dict[str, list[str]] = {"p-ua": [], "p-dl": []}
        self._subscribers = {short: world.subscriber(short) for short in self.got}
        for subscriber in self._subscribers.values():
            subscriber.subscribe("Flight", timeout=PATIENCE)
        self._publisher = world.publisher("p-airport")
        self._publisher.wait_ready(PATIENCE)
        self._publishing, self._reading = threading.Event(), threading.Event()
        self._threads = [
            threading.Thread(target=self._publish),
            *(threading.Thread(target=self._read, args=(short,)) for short in self.got),
        ]
        for thread in self._threads:
            thread.start()

    def _publish(self) -> None:
        while not self._publishing.is_set():
            for short, handles in self.sent.items():
                carrier = short.removeprefix("p-").upper()
                values = {**FLIGHT, "carrier": carrier}
                handles.append(self._publisher.publish_nowait("Flight", values))

    def _read(self, short: str) -> None:
        while not self._reading.is_set():
            events = self._subscribers[short].events(timeout=0.5)
            self.got[short].extend(event.publication for event in events)

    def settle(self) -> None:
        """Stop publishing, wait until every event was accepted and arrived, stop reading."""
        self._publishing.set()
        self._threads[0].join()
        for handles in self.sent.values():
            for handle in handles:
                handle.wait(90)
        expected = self.expected()
        wait_until(
            lambda: all(expected[short] <= set(self.got[short]) for short in expected),
            "every event to arrive",
            60,
        )
        time.sleep(1)  # doubles would come now
        self._reading.set()
        for thread in self._threads:
            thread.join()

    def expected(self) -> dict[str, set[str]]:
        """What each subscriber must have got."""
        return {short: {handle.id for handle in handles} for short, handles in self.sent.items()}


def _delivered(agent: AgentProcess, number: int) -> bool:
    counters = agent.domain("flights").get("counters", {})
    return bool(counters.get("delivered", 0) > number)


def test_killed_under_load_nothing_is_lost_and_nothing_comes_twice(world: World) -> None:
    world.start()
    load = Load(world)
    for short in ("alpha", "beta", "alpha", "beta"):
        agent = world.agents[short]
        # Not before it is in the middle of its work.
        wait_until(partial(_delivered, agent, 50), f"{short} to work", 60)
        agent.kill()
        agent.start()
    load.settle()
    for short, ids in load.expected().items():
        assert len(ids) > 100
        assert sorted(load.got[short]) == sorted(ids)


def test_wrong_bundles_are_refused_and_visible(world: World) -> None:
    world.start()
    organisation, address = world.organisation, world.address("alpha")
    stranger = generate_signing_key()
    wrong = {
        "signature": organisation.bundle(address, 2, signer=stranger),
        "expired": organisation.bundle(address, 2, expires_in=-5),
        "audience": organisation.bundle(world.address("beta"), 2),
        "previous": organisation.bundle(address, 2, previous="ab" * 32),
    }
    for sealed in wrong.values():
        world.control.send(address, "bundle", "flights", sealed.message)
    world.control.send(address, "bundle", "flights", b"no bundle at all")
    alpha = world.agents["alpha"]
    reasons = {*wrong, "malformed"}
    wait_until(
        lambda: {one["reason"] for one in alpha.status()["refused_bundles"]} == reasons,
        "alpha to show the refusals",
    )
    assert alpha.domain("flights")["revision"] == 1
    wait_until(
        lambda: (
            {
                reason
                for _, status, reason in world.control.statuses(address)
                if status == "rejected"
            }
            == reasons
        ),
        "the control plane to be told of the refusals",
    )
    older = organisation.bundle(address, 1)
    world.control.send(address, "bundle", "flights", organisation.bundle(address, 3).message)
    world.control.wait_applied(address, 3)
    world.control.send(address, "bundle", "flights", older.message)
    wait_until(
        lambda: (1, "rejected", "rollback") in world.control.statuses(address),
        "the older bundle to be refused",
    )
    assert alpha.domain("flights")["revision"] == 3


def test_a_split_event_travels_over_two_brokers_and_is_put_together(
    tmp_path: Path, brokers_file: BrokersFiles
) -> None:
    parts = [
        {"overlay": "a", "attributes": ["carrier", "delay"]},
        {"overlay": "b", "attributes": ["origin", "tail"]},
    ]
    world = World.make(tmp_path, brokers_file, splits={"Flight": parts})
    try:
        world.start()
        airline, authority = world.subscriber("p-ua"), world.subscriber("p-faa")
        airline.subscribe("Flight", 'origin == "EWR" && delay > 100', timeout=PATIENCE)
        authority.subscribe("Flight", timeout=PATIENCE)
        publisher = world.publisher("p-airport")
        wanted = publisher.publish("Departure", {**FLIGHT, "gate": "C3"}, timeout=PATIENCE)
        publisher.publish("Departure", {**FLIGHT, "origin": "JFK"}, timeout=PATIENCE)
        publisher.publish("Flight", {**FLIGHT, "delay": 7}, timeout=PATIENCE)
        got = received(airline, 1)
        assert [event.publication for event in got] == [wanted.id]
        assert got[0].attributes == {**FLIGHT, "gate": "C3"}
        assert got[0].withheld == {}
        late = received(authority, 2)
        assert len(late) == 2
        for event in late:
            assert event.attributes == {"carrier": "UA", "delay": 130, "tail": "N14228"}
        gamma = world.agents["gamma"]
        wait_until(lambda: gamma.domain("flights")["counters"]["admitted"] == 3, "gamma to count")
        assert airline.incomplete == authority.incomplete == 0
    finally:
        world.close()


def test_without_a_lease_nothing_is_delivered_and_nothing_lost(world: World) -> None:
    world.organisation.lease_seconds = 2
    world.start()
    subscriber = world.subscriber("p-ua")
    subscriber.subscribe("Flight", timeout=PATIENCE)
    publisher = world.publisher("p-airport")
    publisher.wait_ready(PATIENCE)
    world.control.silent = True
    world.wait_standing("alpha", "lease-over")
    assert world.agents["alpha"].page("/ready")[0] == 503
    with pytest.raises(Refused) as refused:
        publisher.publish("Flight", FLIGHT, timeout=2)
    assert refused.value.reason == "timeout"
    assert list(subscriber.events(timeout=1)) == []
    world.agents["alpha"].end()
    world.agents["alpha"].start()
    world.wait_standing("alpha", "no-lease")
    assert list(subscriber.events(timeout=1)) == []
    world.control.silent = False
    world.wait_standing("alpha", "serving")
    assert len(received(subscriber, 1)) == 1


def test_behind_the_minimum_events_wait_until_the_bundle_comes(world: World) -> None:
    world.start()
    subscriber = world.subscriber("p-ua")
    subscriber.subscribe("Flight", timeout=PATIENCE)
    publisher = world.publisher("p-airport")
    publisher.wait_ready(PATIENCE)
    world.control.minimum_revision["flights"] = 2
    world.wait_standing("alpha", "behind-revision")
    handle = publisher.publish_nowait("Flight", FLIGHT)
    assert list(subscriber.events(timeout=1)) == []
    world.control.push(world.organisation, world.address("alpha"))
    assert handle.wait(PATIENCE).id == next(iter(subscriber.events(timeout=PATIENCE))).publication


def test_a_notice_stops_a_subscriber_and_a_publisher_at_once(world: World) -> None:
    world.start()
    revoked, other = world.subscriber("p-ua"), world.subscriber("p-faa")
    revoked.subscribe("Flight", timeout=PATIENCE)
    other.subscribe("Flight", timeout=PATIENCE)
    publisher = world.publisher("p-airport")
    publisher.publish("Flight", FLIGHT, timeout=PATIENCE)
    assert len(received(revoked, 1)) == 1
    address = world.address("alpha")
    number = world.control.notice(world.organisation, address, (world.name("p-ua"),))
    world.control.wait(
        lambda: (number, "applied", "") in world.control.statuses(address, "notice"),
        "alpha to apply the notice",
    )
    publisher.publish("Flight", FLIGHT, timeout=PATIENCE)
    assert list(revoked.events(timeout=2)) == []
    assert len(received(other, 2)) == 2
    # It survives kill -9, under a bundle that still grants.
    world.agents["alpha"].kill()
    world.agents["alpha"].start()
    world.wait_standing("alpha", "serving")
    publisher.publish("Flight", FLIGHT, timeout=PATIENCE)
    assert list(revoked.events(timeout=2)) == []
    world.control.notice(world.organisation, address, (world.name("p-airport"),))
    wait_until(
        lambda: world.name("p-airport") in world.agents["alpha"].domain("flights")["denied"],
        "the publisher to be denied",
    )
    with pytest.raises(Refused) as refused:
        publisher.publish("Flight", FLIGHT, timeout=PATIENCE)
    assert refused.value.reason == "revoked"


def test_a_lost_notice_keeps_the_domain_waiting(world: World) -> None:
    world.start()
    world.control.minimum_notice[world.address("alpha"), "flights"] = 1
    world.wait_standing("alpha", "behind-notice")
    # The control plane sends what is missing: number 2 alone does not help, 1 does.
    world.control.notice(world.organisation, world.address("alpha"), (world.name("p-dl"),))
    wait_until(
        lambda: world.agents["alpha"].domain("flights")["denied"] == [world.name("p-dl")],
        "the notice to be applied",
    )
    world.wait_standing("alpha", "behind-notice")
    world.control.minimum_notice[world.address("alpha"), "flights"] = 0
    world.control.notice(world.organisation, world.address("alpha"), (world.name("p-nobody"),))
    world.control.minimum_notice[world.address("alpha"), "flights"] = 2
    world.wait_standing("alpha", "serving")


def test_publishers_follow_a_switch_of_epochs_without_losing_an_event(world: World) -> None:
    world.start()
    near, far = world.subscriber("p-ua"), world.subscriber("p-dl")
    near.subscribe("Flight", timeout=PATIENCE)
    far.subscribe("Flight", timeout=PATIENCE)
    publisher = world.publisher("p-airport")
    publisher.publish("Flight", FLIGHT, timeout=PATIENCE)
    organisation = world.organisation
    organisation.epochs = {1: "current", 2: "staged"}
    organisation.key_states = {1: "current", 2: "staged"}
    world.control.push_all(organisation)
    for short in ("alpha", "beta", "gamma", "p-airport"):
        world.control.wait_applied(world.address(short), 2)
    ids = [publisher.publish("Flight", {**FLIGHT, "carrier": "DL"}, timeout=PATIENCE).id]
    # alpha switches, beta does not yet: what alpha forwards in epoch 2 waits at beta.
    organisation.epochs = {1: "draining", 2: "current"}
    organisation.key_states = {1: "draining", 2: "current"}
    for short in ("p-airport", "alpha"):
        world.control.push(organisation, world.address(short))
        world.control.wait_applied(world.address(short), 3)
    ids.append(publisher.publish("Flight", {**FLIGHT, "carrier": "DL"}, timeout=PATIENCE).id)
    wait_until(
        lambda: world.agents["beta"].domain("flights")["counters"].get("held", 0) > 0,
        "beta to hold the event of an epoch that it does not match in yet",
    )
    world.control.push(organisation, world.address("beta"))
    assert [event.publication for event in received(far, 2)] == ids
    # Retired at the agents: a publisher with an old bundle is refused and follows.
    organisation.epochs, organisation.key_states = {2: "current"}, {2: "current"}
    for short in ("alpha", "beta", "gamma"):
        world.control.push(organisation, world.address(short))
        world.control.wait_applied(world.address(short), world.control.revisions[
            "flights", world.address(short)
        ])  # fmt: skip
    publisher.publish("Flight", FLIGHT, timeout=PATIENCE)
    assert len(received(near, 2)) == 2


def test_a_publisher_with_an_old_epoch_is_refused_until_its_bundle_comes(world: World) -> None:
    world.start()
    publisher = world.publisher("p-airport")
    publisher.publish("Flight", FLIGHT, timeout=PATIENCE)
    organisation = world.organisation
    organisation.epochs = {2: "current"}
    world.control.push(organisation, world.address("alpha"))
    world.control.wait_applied(world.address("alpha"), 2)
    handle = publisher.publish_nowait("Flight", FLIGHT)
    wait_until(
        lambda: world.agents["alpha"].domain("flights")["refusals"].get("epoch-retired", 0) > 0,
        "alpha to refuse the old epoch",
    )
    world.control.push(organisation, world.address("p-airport"))
    assert handle.wait(PATIENCE).id


def test_a_publisher_is_ready_only_with_a_current_tag_key(world: World) -> None:
    world.start()
    organisation = world.organisation
    organisation.epochs = {1: "staged"}
    world.control.push(organisation, world.address("p-airport"))
    publisher = world.publisher("p-airport")
    world.control.wait_applied(world.address("p-airport"), 2)
    with pytest.raises(Refused, match="tag key"):
        publisher.wait_ready(0.5)
    with pytest.raises(Refused) as refused:
        publisher.publish("Flight", FLIGHT, timeout=0.5)
    assert refused.value.reason == "not-ready"
    organisation.epochs = {1: "current"}
    later = threading.Timer(1, world.control.push, (organisation, world.address("p-airport")))
    later.start()
    # What is published meanwhile waits for the key and goes.
    assert publisher.publish("Flight", FLIGHT, timeout=PATIENCE).id
    later.join()


def test_the_broker_carries_no_plaintext(world: World, activemq: ActiveMQ) -> None:
    world.start()
    subscriber = world.subscriber("p-faa")
    subscriber.subscribe("Flight", 'carrier == "UA"', timeout=PATIENCE)
    # Long enough to be in no ciphertext by chance.
    event = {**FLIGHT, "origin": "NEWARK LIBERTY"}
    world.publisher("p-airport").publish("Flight", event, timeout=PATIENCE)
    assert len(received(subscriber, 1)) == 1
    activemq.stop()  # flushes the store
    try:
        store = b"".join(
            path.read_bytes() for path in (activemq.folder / "data").rglob("*") if path.is_file()
        )
    finally:
        activemq.start()
    assert world.name("p-faa").encode() in store  # the name of a queue: the store was read
    for secret in (b"N14228", b"carrier", b"NEWARK LIBERTY", b"Flight", b"own-ua", b"subject."):
        assert secret not in store


def test_agents_survive_a_broker_that_is_away(tmp_path: Path) -> None:
    broker = {name: ActiveMQ(tmp_path / f"amq-{name}", name=name) for name in ("a", "b")}

    def brokers_file(account: str) -> Path:
        entries = {name: one.entry(account) for name, one in broker.items()}
        return write_brokers_file(tmp_path / f"brokers-{account}.json", entries)

    world = World.make(tmp_path, brokers_file)
    try:
        for agent in world.agents.values():
            agent.start()
        wait_until(lambda: world.agents["alpha"].page("/health")[0] == 200, "alpha to be alive")
        assert world.agents["alpha"].status()["control_connected"] is False
        for one in broker.values():
            one.start()
        world.control.push_all(world.organisation)
        for short in world.agents:
            world.wait_standing(short, "serving")
        subscriber = world.subscriber("p-ua")
        subscriber.subscribe("Flight", timeout=PATIENCE)
        publisher = world.publisher("p-airport")
        ids = [publisher.publish("Flight", FLIGHT, timeout=PATIENCE).id]
        handles = [publisher.publish_nowait("Flight", FLIGHT)]
        broker["a"].kill()
        wait_until(lambda: not world.agents["alpha"].status()["data_connected"], "alpha to notice")
        broker["a"].start()
        handles.append(publisher.publish_nowait("Flight", FLIGHT, timeout=PATIENCE))
        ids += [handle.wait(PATIENCE).id for handle in handles]
        assert sorted(one.publication for one in received(subscriber, len(ids))) == sorted(ids)
        assert all(agent.end() == 0 for agent in world.agents.values())
        assert "N14228" not in world.agents["alpha"].log()
    finally:
        world.close()
        for one in broker.values():
            one.stop()


def test_what_cannot_be_read_goes_aside_with_its_reason(world: World) -> None:
    world.start()
    alpha = world.name("alpha")
    transport = StompTransport(world.broker("a"), name="attacker")
    try:
        transport.connect()
        dead = dead_queue(alpha)
        transport.subscribe(dead)
        transport.send(publish_queue(alpha, "flights"), b"no frame")
        transport.send(hop_queue(alpha, "flights"), b"no hop")
        found = [transport.receive(15) for _ in range(2)]
        assert {(one.body, one.headers["reason"]) for one in found if one} == {
            (b"no frame", "malformed"),
            (b"no hop", "malformed"),
        }
    finally:
        transport.close()
    # What goes aside is sent before it is counted.
    wait_until(
        lambda: world.agents["alpha"].domain("flights")["refusals"].get("malformed") == 2,
        "both to be counted",
    )
    assert "portcullis_refusals_total" in world.agents["alpha"].page("/metrics")[1]


def test_two_agents_cannot_share_a_folder(world: World) -> None:
    world.start()
    alpha = world.agents["alpha"]
    second = AgentProcess(alpha.name, alpha.folder, alpha.port)
    second.start()
    assert second.end(signal.SIGCONT) == 2
    assert "in use by another process" in alpha.log()


def test_subscriptions_survive_restarts_and_end_when_asked(world: World) -> None:
    world.start()
    subscriber = world.subscriber("p-ua")
    wish = subscriber.subscribe("Flight", "delay > 100", timeout=PATIENCE)
    publisher = world.publisher("p-airport")
    ids = [publisher.publish("Flight", FLIGHT, timeout=PATIENCE).id]
    assert [event.publication for event in received(subscriber, 1)] == ids
    subscriber.close()
    assert world.agents["alpha"].end() == 0
    world.agents["alpha"].start()
    ids.append(publisher.publish("Flight", FLIGHT, timeout=PATIENCE).id)
    publisher.publish("Flight", {**FLIGHT, "delay": 1}, timeout=PATIENCE)
    again = world.subscriber("p-ua")
    assert [event.publication for event in received(again, 1)] == ids[1:]
    with pytest.raises(InputError) as wrong:
        again.subscribe("Flight", "delay > ", timeout=PATIENCE)
    assert wrong.value.at is not None
    with pytest.raises(Refused) as refused:
        again.subscribe("Zeppelin", timeout=PATIENCE)
    assert refused.value.reason == "unknown-type"
    assert [one.identifier for one in again.subscriptions] == [wish]
    again.unsubscribe(wish, timeout=PATIENCE)
    publisher.publish("Flight", FLIGHT, timeout=PATIENCE)
    assert list(again.events(timeout=2)) == []
    assert world.agents["alpha"].domain("flights")["subscribers"] == []


def test_a_client_moves_to_another_home_agent(world: World) -> None:
    world.start()
    subscriber = world.subscriber("p-ua")
    subscriber.subscribe("Flight", timeout=PATIENCE)
    publisher = world.publisher("p-airport")
    first = publisher.publish("Flight", FLIGHT, timeout=PATIENCE).id
    # It stands in the client's queue before the former home lets go of the client.
    wait_until(partial(_delivered, world.agents["alpha"], 0), "the first event to be sent")
    client = world.organisation.clients[world.name("p-ua")]
    client.homes = {"a": world.name("beta"), "b": world.name("gamma")}
    for short in ("alpha", "beta", "p-ua"):
        world.control.push(world.organisation, world.address(short))
        world.control.wait_applied(world.address(short), 2)
    wait_until(
        lambda: world.name("p-ua") in world.agents["beta"].domain("flights")["subscribers"],
        "the subscription to be renewed at the new home",
    )
    second = publisher.publish("Flight", FLIGHT, timeout=PATIENCE).id
    # What the former home sent before is still good, and what the new one sends too.
    assert [event.publication for event in received(subscriber, 2)] == [first, second]


def test_a_profile_is_for_one_process(world: World) -> None:
    world.publisher("p-airport")
    with pytest.raises(ProfileError, match="in use"):
        Subscriber(world.folder / world.name("p-airport"))
