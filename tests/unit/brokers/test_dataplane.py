"""The agent's loop on an in-memory broker: outages, crashes at every point, poison."""

from __future__ import annotations

import errno
import itertools
import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from brokers.adapters.disk import DiskWatch
from brokers.adapters.files import SubscriptionFile
from brokers.adapters.logs import JsonLines
from brokers.adapters.seen import SeenLog
from brokers.agent.dataplane import DataPlane
from brokers.agent.policy import InForce, PolicyInForce, Progress
from brokers.agent.statistics import Statistics
from brokers.data.subscriptions import Subscription, SubscriptionIndex
from brokers.ports import Message, Outgoing, SeenEntry, Spend
from policyengine.bundles import delivery_queue, hop_queue, open_hop, publish_queue, seal_hop
from policyengine.primitives.canonical import b64
from policyengine.primitives.rand import SYSTEM_RANDOM
from tests.support.data_plane import Organisation, airport
from tests.support.memory_broker import MemoryBroker, MemoryTransport
from tests.support.pure_agents import NOW, PureAgent, agent_snapshot, deliveries, hops, publication

FLIGHT: dict[str, Any] = {"carrier": "UA", "origin": "EWR", "delay": 130, "tail": "N14228"}
ORGANISATION = airport()
SNAPSHOTS = {name: agent_snapshot(ORGANISATION, name) for name in ("alpha", "beta")}
IN, HOP = publish_queue("alpha", "flights"), hop_queue("alpha", "flights")
UA = delivery_queue("p-ua")


class Crashed(BaseException):
    """The process was killed here."""


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.time = NOW

    def wall(self) -> float:
        return self.time

    def boot(self) -> float:
        return self.time


class Rig:
    """One agent's data plane on a folder; made anew after a crash."""

    def __init__(
        self,
        folder: Path,
        broker: MemoryBroker,
        *,
        name: str = "alpha",
        point: Callable[[str], None] = lambda _: None,
        disk: bool = False,
    ) -> None:
        organisation: Organisation = ORGANISATION
        self.clock, self.statistics, progress = Clock(), Statistics(), Progress()
        keys = organisation.agents[name].keys
        self.disk = DiskWatch(folder, self.clock, least=0) if disk else None
        self.standing = "serving"
        self.transport = CrashingTransport(broker, point)
        self.transport.start()
        self.seen = CrashingLog(folder / "seen.sqlite", point)
        self.policy = PolicyInForce(
            agent=name,
            overlay="a",
            sealing_key=keys.sealing,
            subscription_file=SubscriptionFile(folder / "subscriptions.json"),
            progress=progress,
        )
        own = [Subscription("flights", "p-ua", "s", "Flight", "")]
        snapshot = SNAPSHOTS[name]
        in_force = InForce(snapshot, SubscriptionIndex.build(snapshot, own))
        self.policy.change_subscriptions(own, [])
        self.policy.commit("flights", in_force)
        self.plane = DataPlane(
            agent=name,
            keys=keys,
            transport=self.transport,
            policy=self.policy,
            standing=lambda _: self.standing,
            now=self.clock.wall,
            seen=self.seen,
            statistics=self.statistics,
            progress=progress,
            clock=self.clock,
            disk=self.disk,
        )

    def run(self, rounds: int = 5) -> None:
        """Some rounds, with time for what rests."""
        for _ in range(rounds):
            self.plane.step(0.0)
            self.clock.time += 2.0

    def die(self) -> None:
        """The process is gone; the broker takes back what was not acknowledged."""
        self.transport.close()
        self.seen.close()


class CrashingTransport(MemoryTransport):
    """Tells a test of every step, which may crash there."""

    def __init__(self, broker: MemoryBroker, point: Callable[[str], None]) -> None:
        super().__init__(broker)
        self._point = point

    def send_many(self, messages: Iterable[Outgoing], *, timeout: float = 30.0) -> None:
        for message in messages:
            self._point("send")
            super().send_many([message])
        self._point("sent")

    def ack_many(self, messages: Any) -> None:
        self._point("ack")
        super().ack_many(messages)
        self._point("acked")


class CrashingLog(SeenLog):
    """Tells a test before and after a record."""

    def __init__(self, path: Path, point: Callable[[str], None]) -> None:
        super().__init__(path, seconds=3600)
        self._point = point

    def record(
        self, entries: Iterable[SeenEntry], *, now: float, spent: Iterable[Spend] = ()
    ) -> None:
        self._point("record")
        super().record(entries, now=now, spent=spent)
        self._point("recorded")


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker()


def _publish(broker: MemoryBroker, count: int, start: int = 0) -> list[str]:
    names = [f"{number:032x}" for number in range(start, start + count)]
    for name in names:
        broker.put(IN, publication(ORGANISATION, "p-airport", "Flight", FLIGHT, identifier=name))
    return names


def _delivered(broker: MemoryBroker, handle: str = "p-ua") -> list[str]:
    queue = delivery_queue(handle)
    bodies = [Outgoing(queue, body) for body in broker.bodies(queue)]
    return [one.publication for one in deliveries(ORGANISATION, bodies).get(handle, [])]


def test_a_batch_is_handled_once(tmp_path: Path, broker: MemoryBroker) -> None:
    names = _publish(broker, 5)
    rig = Rig(tmp_path, broker)
    rig.run()
    assert _delivered(broker) == names
    assert broker.bodies(IN) == []
    assert len(broker.bodies(hop_queue("beta", "flights"))) == 5
    assert len(broker.bodies(delivery_queue("p-airport"))) == 5
    counters = rig.statistics.counters("flights")
    assert (counters["admitted"], counters["delivered"], counters["forwarded"]) == (5, 5, 5)


def test_killed_at_every_point_nothing_is_lost(tmp_path: Path) -> None:
    """Whatever the point, all arrives, and doubles carry the same identifier."""
    doubled = 0
    for crash_at in itertools.count(1):
        broker, folder = MemoryBroker(), tmp_path / str(crash_at)
        folder.mkdir()
        names = _publish(broker, 2)
        steps = itertools.count(1)

        def point(_: str, steps: Any = steps, crash_at: int = crash_at) -> None:
            if next(steps) == crash_at:
                raise Crashed

        rig = Rig(folder, broker, point=point)
        crashed = False
        try:
            rig.run(2)
        except Crashed:
            crashed = True
        rig.die()
        again = Rig(folder, broker)
        again.run(2)
        again.die()
        got = _delivered(broker)
        assert set(got) == set(names)
        assert broker.bodies(IN) == []
        # Receivers of hops tell doubles by their keys.
        far = PureAgent(ORGANISATION, "beta")
        far.subscribe("p-faa", "Flight")
        hopped = [far.hop(body) for body in broker.bodies(hop_queue("beta", "flights"))]
        assert sum(len(effects.seen) for effects in hopped) == len(names)
        doubled += len(got) - len(names)
        if not crashed:
            break
    assert crash_at > 8
    assert doubled > 0  # the crash between sending and recording was among them


def test_an_outage_while_sending_gives_everything_back(
    tmp_path: Path, broker: MemoryBroker
) -> None:
    def point(what: str) -> None:
        if what == "send" and broker.sent > 4:
            broker.up = False

    names = _publish(broker, 3)
    rig = Rig(tmp_path, broker, point=point)
    rig.run(2)
    assert len(rig.seen) == 0
    broker.up = True
    rig.transport._point = lambda _: None
    rig.run()
    assert set(_delivered(broker)) == set(names)
    assert len(rig.seen) == 3
    assert broker.bodies(IN) == []


def test_a_failing_disk_loses_nothing_and_blames_no_message(
    tmp_path: Path, broker: MemoryBroker
) -> None:
    failing = True

    def point(what: str) -> None:
        if what == "record" and failing:
            raise OSError("no space left")

    names = _publish(broker, 3)
    rig = Rig(tmp_path, broker, point=point)
    for _ in range(5):
        with pytest.raises(OSError, match="no space"):
            rig.run(1)
        rig.clock.time += 2
    failing = False
    rig.run()
    assert set(_delivered(broker)) == set(names)
    assert broker.bodies("pc.dead.alpha") == []


def test_a_full_disk_takes_nothing_more_until_there_is_room(
    tmp_path: Path, broker: MemoryBroker
) -> None:
    room, written = 0, 0

    def point(what: str) -> None:
        nonlocal written
        if what == "record":
            written += 1
            if written > room:
                raise OSError(errno.ENOSPC, "no space left")

    rig = Rig(tmp_path, broker, point=point, disk=True)
    assert rig.disk is not None
    names = _publish(broker, 3)
    with pytest.raises(OSError, match="no space"):
        rig.run(1)
    assert rig.disk.problem == "disk-full"
    # Sent once and not recorded: it must not be sent again and again meanwhile.
    rig.disk.least = 2**62
    sent = broker.sent
    rig.run(5)
    assert broker.sent == sent
    assert len(broker.bodies(IN)) == 3
    room, rig.disk.least = 10, 0
    rig.run()
    assert rig.disk.problem == ""
    assert set(_delivered(broker)) == set(names)
    assert broker.bodies(IN) == []


def test_room_that_is_lost_while_it_waits_for_messages_is_seen_before_one_is_taken(
    tmp_path: Path, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path, broker, disk=True)
    disk, receive = rig.disk, rig.transport.receive_many
    assert disk is not None
    names = _publish(broker, 3)

    def full_meanwhile(limit: int, timeout: float) -> list[Message]:
        found = receive(limit, timeout)
        disk.failed(OSError(errno.ENOSPC, "no space left"))
        disk.least = 2**62
        return found

    sent = broker.sent
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(rig.transport, "receive_many", full_meanwhile)
        rig.run(1)
    assert (broker.sent, len(broker.bodies(IN))) == (sent, 3)
    rig.run()
    assert broker.sent == sent
    disk.least = 0
    rig.run()
    assert _delivered(broker) == names
    assert broker.bodies(IN) == []


def test_a_waiting_domain_is_not_consumed(tmp_path: Path, broker: MemoryBroker) -> None:
    names = _publish(broker, 3)
    rig = Rig(tmp_path, broker)
    rig.standing = "lease-over"
    rig.run()
    assert len(broker.bodies(IN)) == 3
    rig.standing = "serving"
    rig.run(1)
    assert _delivered(broker) == names
    _publish(broker, 2, start=3)
    rig.standing = "behind-revision"
    rig.run()
    assert len(broker.bodies(IN)) == 2
    assert len(_delivered(broker)) == 3


def test_a_lease_that_ends_in_the_middle_of_a_batch_stops_it(
    tmp_path: Path, broker: MemoryBroker
) -> None:
    names = _publish(broker, 3)
    answers = iter(["serving", "serving", "lease-over"])
    rig = Rig(tmp_path, broker)
    rig.plane._standing = lambda _: next(answers, "lease-over")
    rig.run(3)
    assert _delivered(broker) == []
    rig.plane._standing = lambda _: "serving"
    rig.run(3)
    assert _delivered(broker) == names


def test_a_lease_that_ends_while_a_batch_is_sent_stops_what_has_not_left(
    tmp_path: Path, broker: MemoryBroker
) -> None:
    rig: Rig

    def slow_network(what: str) -> None:
        if what == "send":
            rig.clock.time += 2
            if rig.clock.time > ends:
                rig.standing = "lease-over"

    names = _publish(broker, 20)
    rig = Rig(tmp_path, broker, point=slow_network)
    ends = rig.clock.time + 9
    rig.run(1)
    # Nobody was told that anything is over, and nothing is lost: all of it comes again.
    assert 0 < len(_delivered(broker)) <= 5
    assert len(broker.bodies(IN)) == 20
    ends, rig.standing = float("inf"), "serving"
    rig.run(3)
    assert set(_delivered(broker)) == set(names)
    assert broker.bodies(IN) == []


def test_standing_that_changes_between_messages_never_acknowledges_a_skipped_one(
    tmp_path: Path, broker: MemoryBroker
) -> None:
    names = _publish(broker, 6)
    rig = Rig(tmp_path, broker)
    flip = itertools.cycle(["serving", "lease-over", "serving"])
    rig.plane._standing = lambda _: next(flip)
    rig.run(30)
    rig.plane._standing = lambda _: "serving"
    rig.run(3)
    assert sorted(_delivered(broker)) == names


def test_a_destination_that_is_refused_does_not_stop_the_others(
    tmp_path: Path, broker: MemoryBroker
) -> None:
    broker.refused.add(UA)
    names = _publish(broker, 3)
    Rig(tmp_path, broker).run()
    assert broker.bodies(IN) == []
    assert len(broker.bodies("pc.dead.alpha")) == 3
    assert len(broker.bodies(hop_queue("beta", "flights"))) >= len(names)


def test_when_everything_is_refused_nothing_is_acknowledged(
    tmp_path: Path, broker: MemoryBroker
) -> None:
    broker.refused.update({UA, "pc.dead.alpha"})
    names = _publish(broker, 2)
    rig = Rig(tmp_path, broker)
    rig.run()
    rig.transport.unsubscribe(IN)
    assert len(broker.bodies(IN)) == len(names)


def test_rubbish_stops_nobody_when_dead_letters_are_full(
    tmp_path: Path, broker: MemoryBroker
) -> None:
    broker.put(IN, b"rubbish")
    names = _publish(broker, 2)
    broker.put(IN, b"more rubbish")
    broker.refused.add("pc.dead.alpha")
    rig = Rig(tmp_path, broker)
    rig.run()
    assert _delivered(broker) == names
    assert broker.bodies(IN) == []
    assert rig.statistics.refusals("flights") == {"malformed": 2}


def test_of_rubbish_the_beginning_is_kept(tmp_path: Path, broker: MemoryBroker) -> None:
    broker.put(IN, b"r" * 1_000_000)
    Rig(tmp_path, broker).run()
    (letter,) = broker.queues["pc.dead.alpha"]
    assert letter.body == b"r" * 65_536
    assert (letter.headers["reason"], letter.headers["bytes"]) == ("malformed", "1000000")


def _hop(origin: str = "beta", **changes: Any) -> bytes:
    home = PureAgent(ORGANISATION, "beta")
    body = publication(ORGANISATION, "p-kiosk", "Departure", {"carrier": "UA", "gate": "A"})
    routed = open_hop(
        hops(home.client_message(body).outgoing)["alpha"],
        hop_keys={1: ORGANISATION.overlay_key("a", 1)},
        verify=lambda name: ORGANISATION.agents[name].keys.signing.public,
    )
    return seal_hop(
        replace(routed, **changes),
        signing_key=ORGANISATION.agents[origin].keys.signing,
        hop_key=ORGANISATION.overlay_key("a", 1),
        epoch=1,
        random=SYSTEM_RANDOM,
    )


def test_poison_goes_aside_after_three_attempts_and_the_others_go_on(
    tmp_path: Path, broker: MemoryBroker
) -> None:
    # A ciphertext under a key that is held, and that does not open.
    poison = _hop(sealed={"tail": {"tail-key": "1:" + "A" * 80}}, publication="9" * 32)
    broker.put(HOP, _hop())
    broker.put(HOP, poison)
    broker.put(HOP, _hop(publication="8" * 32))
    rig = Rig(tmp_path, broker)
    rig.run(2)
    assert broker.bodies("pc.dead.alpha") == []
    rig.run(8)
    assert broker.bodies("pc.dead.alpha") == [poison]
    (letter,) = broker.queues["pc.dead.alpha"]
    said = {name: letter.headers[name] for name in ("reason", "from-queue", "attempts", "bytes")}
    assert said == {
        "reason": "failed",
        "from-queue": HOP,
        "attempts": "3",
        "bytes": str(len(poison)),
    }
    assert sorted(_delivered(broker)) == ["0" * 32, "8" * 32]
    assert rig.statistics.refusals("flights") == {"failed": 1}


def test_logs_tell_what_happened_and_no_value(tmp_path: Path, broker: MemoryBroker) -> None:
    """At the finest level, with everything that goes wrong in one run."""
    written, root = StringIO(), logging.getLogger("portcullis")
    handler = logging.StreamHandler(written)
    handler.setFormatter(JsonLines())
    before = root.level
    root.addHandler(handler)
    root.setLevel("DEBUG")
    broker.put(IN, b"rubbish with a SECRET-VALUE")
    broker.put(IN, publication(ORGANISATION, "p-airport", "Flight", {**FLIGHT, "carrier": 7}))
    broker.put(IN, publication(ORGANISATION, "p-nobody", "Flight", FLIGHT, identifier="1" * 32))
    broker.put(HOP, _hop(sealed={"tail": {"tail-key": "1:" + "A" * 80}}, publication="9" * 32))
    broker.put(HOP, _hop(type="Zeppelin", publication="7" * 32))
    _publish(broker, 2, start=50)
    broker.refused.add(UA)
    try:
        Rig(tmp_path, broker).run(12)
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    events = {line["event"] for line in lines}
    assert events >= {"refused", "message failed", "undeliverable", "batch not sent"}
    keys = ORGANISATION.agents["alpha"].keys
    secrets = {
        "SECRET-VALUE", "N14228", "EWR", "A" * 20, "carrier", "subject.", "event.",
        b64(keys.sealing.private), b64(keys.signing.private), keys.sealing.private.hex(),
        b64(ORGANISATION.attribute_key("tail-key", 1)),
    }  # fmt: skip
    assert not {secret for secret in secrets if secret in written.getvalue()}


def test_a_hop_that_needs_a_newer_policy_waits_and_what_is_behind_it_too(
    tmp_path: Path, broker: MemoryBroker
) -> None:
    early = _hop(type="Zeppelin", publication="7" * 32)
    broker.put(HOP, early)
    broker.put(HOP, _hop())
    names = _publish(broker, 1, start=50)
    rig = Rig(tmp_path, broker)
    rig.run(5)
    assert _delivered(broker) == names  # own publishers are not held up
    rig.clock.time += 200
    rig.run(3)
    assert broker.bodies("pc.dead.alpha") == [early]
    assert sorted(_delivered(broker)) == ["0" * 32, *names]


def test_statistics_remember_refusals(tmp_path: Path, broker: MemoryBroker) -> None:
    broker.put(IN, publication(ORGANISATION, "p-nobody", "Flight", FLIGHT))
    rig = Rig(tmp_path, broker)
    rig.run()
    (last,) = rig.statistics.last_refusals()
    assert (last["reason"], last["sender"], last["type"]) == (
        "not-authorised",
        "p-nobody",
        "Flight",
    )
    assert broker.bodies("pc.dead.alpha") == []  # the sender was told


def test_a_change_settles_when_the_batches_before_it_are_over() -> None:
    progress = Progress()
    assert progress.settled()()
    progress.begin()
    settled = progress.settled()
    assert not settled()
    progress.finish()
    assert settled()
    progress.begin()
    assert settled()
