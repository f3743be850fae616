"""What agents note of their decisions: who, what, why; no value, and nothing in another's name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bitarray import frozenbitarray

from brokers.adapters.decisions import DecisionFolder
from brokers.agent.dataplane import DataPlane
from brokers.data.decisions import MOST_NAMED, Unserved, refused, summed
from brokers.ports import Decision, TransportError
from policyengine.bundles import DecisionRow, DecisionSettings, publish_queue
from policyengine.primitives.canonical import b64
from tests.support.memory_broker import MemoryBroker
from tests.support.pure_agents import NOW, PureAgent, publication
from tests.unit.brokers.test_dataplane import FLIGHT, IN, ORGANISATION, Rig

SETTINGS = DecisionSettings(bytes(31) + b"\x09", 30)


def agent(*subscribers: str) -> PureAgent:
    made = PureAgent(ORGANISATION, "alpha")
    for handle in subscribers:
        made.subscribe(handle, "Flight")
    return made


def decided(made: PureAgent, **options: Any) -> list[Decision]:
    body = publication(ORGANISATION, "p-airport", "Flight", FLIGHT, **options)
    effects = made.client_message(body)
    return summed(effects.decisions, [effects.unserved] if effects.unserved else [])


def test_a_publication_and_its_deliveries_are_noted_with_policies_and_subscriptions() -> None:
    made = agent("p-ua", "p-ua")
    first, second = decided(made)
    assert (first.action, first.client, first.type) == ("publish", "p-airport", "Flight")
    assert first.policies
    assert (second.action, second.client) == ("deliver", "p-ua")
    assert second.subscriptions == ("s0", "s1")
    assert second.policies
    assert {first.outcome, second.outcome} <= {"granted", "suppressed"}
    assert second.reason in {"", "no-key", "not-permitted", "condition"}


def test_who_is_revoked_or_not_authorised_and_asks_is_noted_as_refused() -> None:
    made = agent("p-ua", "p-nobody")
    denied = decided(made)
    assert ("deliver", "p-nobody", "refused", "not-authorised") in [
        (one.action, one.client, one.outcome, one.reason) for one in denied
    ]
    made.snapshot = replace(made.snapshot, denied=frozenset({"p-ua"}))
    noted = decided(made, identifier="1" * 32)
    assert ("deliver", "p-ua", "refused", "revoked") in [
        (one.action, one.client, one.outcome, one.reason) for one in noted
    ]
    assert not [one for one in noted if one.client == "p-ua" and one.outcome != "refused"]


def test_a_refused_publication_is_on_its_publishers_account_once_it_is_proved() -> None:
    made = agent()
    made.snapshot = replace(made.snapshot, denied=frozenset({"p-airport"}))
    (one,) = decided(made)
    assert (one.action, one.client, one.reason) == ("publish", "p-airport", "revoked")
    made = agent()
    (one,) = decided(made, signer="p-ua")
    assert (one.client, one.type, one.reason) == ("", "", "signature")


@pytest.mark.parametrize("kind", ["hop", "backlog", "message", "confirm"])
def test_other_refusals_are_no_decisions(kind: str) -> None:
    assert refused(kind, "p-1", "Flight", "malformed") == ()


def test_alike_ones_are_summed_and_crowds_are_counted_together() -> None:
    one = Decision("deliver", "p-1", "Flight", "granted")
    handles = tuple(f"p-{n}" for n in range(1000))
    crowd = Unserved("Flight", 1, frozenbitarray("1" * 1000), handles)
    found = summed([one, one, replace(one, client="p-2")], [crowd, crowd])
    assert found[0] == replace(one, count=2)
    named = [each for each in found if each.reason == "not-authorised" and each.client]
    (others,) = [each for each in found if not each.client]
    assert len(named) == MOST_NAMED
    assert {each.count for each in named} == {2}
    assert others.count == 2 * (1000 - MOST_NAMED)


class Logged:
    """A rig whose snapshot asks for decision logs."""

    def __init__(self, folder: Path, broker: MemoryBroker, **options: Any) -> None:
        self.rig = Rig(folder, broker, **options)
        held = self.rig.policy.domains["flights"]
        snapshot = replace(held.snapshot, decisions=SETTINGS)
        self.rig.policy.commit("flights", replace(held, snapshot=snapshot))
        self.log = DecisionFolder(folder / "decisions", full_after=0.05)
        old = self.rig.plane
        self.rig.plane = DataPlane(
            agent="alpha",
            keys=ORGANISATION.agents["alpha"].keys,
            transport=self.rig.transport,
            policy=self.rig.policy,
            standing=lambda _: self.rig.standing,
            now=self.rig.clock.wall,
            seen=self.rig.seen,
            statistics=self.rig.statistics,
            progress=old._progress,
            clock=self.rig.clock,
            decisions=self.log,
        )

    def rows(self) -> list[DecisionRow]:
        self.log.close(self.rig.clock.time)
        segments = [self.log.read(one) for one in self.log.finished("flights")]
        return [DecisionRow.from_line(line) for each in segments for line in each.lines]


def put(broker: MemoryBroker, count: int) -> None:
    for number in range(count):
        name = f"{number:032x}"
        broker.put(IN, publication(ORGANISATION, "p-airport", "Flight", FLIGHT, identifier=name))


def test_the_loop_writes_what_left_and_nothing_of_an_event(tmp_path: Path) -> None:
    broker = MemoryBroker()
    put(broker, 3)
    logged = Logged(tmp_path, broker)
    logged.rig.run()
    rows = logged.rows()
    assert sum(row.count for row in rows if row.action == "publish") == 3
    assert sum(row.count for row in rows if row.action == "deliver") == 3
    assert {row.revision for row in rows} == {1}
    assert all(row.at >= NOW * 1000 for row in rows)
    text = b"".join(path.read_bytes() for path in (tmp_path / "decisions").rglob("*.segment"))
    for value in FLIGHT.values():
        assert f'"{value}"'.encode() not in text
    keys = ORGANISATION.agents["alpha"].keys
    for key in (keys.sealing.private, keys.signing.private):
        assert b64(key).encode() not in text
    logged.rig.die()


def test_what_did_not_leave_is_not_noted_and_what_did_is_noted_before_it_is_done(
    tmp_path: Path,
) -> None:
    broker = MemoryBroker()
    put(broker, 2)
    failing = True

    def point(what: str) -> None:
        if what == "send" and failing:
            raise TransportError("the broker is away")
        if what == "record":
            assert (tmp_path / "decisions/flights/current.log").read_bytes().count(b"\n") > 1

    logged = Logged(tmp_path, broker, point=point)
    logged.rig.run(2)
    failing = False
    logged.rig.run()
    rows = logged.rows()
    assert sum(row.count for row in rows if row.action == "publish") == 2
    logged.rig.die()


def test_without_settings_nothing_is_written(tmp_path: Path) -> None:
    broker = MemoryBroker()
    put(broker, 1)
    logged = Logged(tmp_path, broker)
    held = logged.rig.policy.domains["flights"]
    logged.rig.policy.commit(
        "flights", replace(held, snapshot=replace(held.snapshot, decisions=None))
    )
    logged.rig.run()
    assert logged.rows() == []
    assert not (tmp_path / "decisions" / "flights").exists()
    assert publish_queue("alpha", "flights") == IN
    logged.rig.die()
