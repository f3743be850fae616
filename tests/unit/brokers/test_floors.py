"""What a notice takes away until a newer policy knows it: it waits, and nothing else is lost."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from brokers.data.reasons import POLICY_ENDED
from policyengine.bundles import Floor, Floors, Notice, seal_notice
from policyengine.primitives.signatures import sign
from tests.support.control_rig import ALPHA, ORGANISATION, Rig
from tests.support.data_plane import airport
from tests.support.memory_broker import MemoryBroker
from tests.support.pure_agents import PureAgent, publication
from tests.unit.brokers.test_backlog import BACK, FLIGHT, SNAPSHOT, _confirming, _drain, _publish

UA = Floors(handles=(Floor("p-ua", SNAPSHOT.revision + 1),))


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker()


def test_what_is_for_a_held_client_waits_for_the_policy_that_knows(
    tmp_path: Path, broker: MemoryBroker
) -> None:
    agent, reader = _confirming(tmp_path, broker)
    agent.policy.hold("flights", UA)
    names = _publish(broker, 3)
    agent.run(4)
    assert (reader.waiting, len(broker.bodies(BACK))) == (0, 3)
    agent.take(replace(SNAPSHOT, revision=SNAPSHOT.revision + 1))
    _drain(agent, reader, names)
    assert reader.read == names
    assert broker.bodies(BACK) == []


def test_what_waited_is_decided_by_the_policy_that_knows(
    tmp_path: Path, broker: MemoryBroker
) -> None:
    agent, reader = _confirming(tmp_path, broker)
    _publish(broker, 2)
    agent.policy.hold("flights", UA)
    _publish(broker, 2, start=5)
    agent.run(4)
    nobody = {number: replace(one, rules={}) for number, one in SNAPSHOT.epochs.items()}
    agent.take(replace(SNAPSHOT, revision=SNAPSHOT.revision + 1, epochs=nobody))
    agent.run(6)
    assert reader.waiting == 0
    assert broker.bodies(BACK) == []


def test_a_policy_holds_back_what_it_does_not_know() -> None:
    both = Floors(UA.handles, (Floor("beta", SNAPSHOT.revision + 1), Floor("alpha", 10**6)))
    held = SNAPSHOT.under(both)
    assert held.held == {"p-ua"}
    assert set(held.agents) == set(SNAPSHOT.agents) - {"beta"}
    assert "beta" not in {peer.name for peer in held.peers}
    knows = replace(SNAPSHOT, revision=SNAPSHOT.revision + 1).under(both)
    assert knows.held == frozenset()
    assert set(knows.agents) == set(SNAPSHOT.agents)


def test_a_held_publishers_events_wait_at_the_broker() -> None:
    agent = PureAgent(airport(), "alpha")
    body = publication(agent.organisation, "p-airport", "Flight", FLIGHT)
    open_to_all = agent.snapshot
    agent.snapshot = open_to_all.under(
        Floors(handles=(Floor("p-airport", open_to_all.revision + 1),))
    )
    effects = agent.client_message(body)
    assert (effects.hold, effects.outgoing, effects.seen) == (POLICY_ENDED, (), ())
    agent.snapshot = open_to_all
    assert agent.client_message(body).hold == ""


def test_a_domain_may_have_to_wait_as_a_whole(tmp_path: Path) -> None:
    rig = Rig(tmp_path, MemoryBroker())
    rig.bundle(1)
    assert rig.link.standing("flights") == "no-lease"
    notice = Notice(1, ALPHA, "flights", "r1", (), "revoked", 1, Floors(revision=3))
    sealed = seal_notice(
        notice,
        sign=partial(sign, ORGANISATION.authority.notice),
        recipient=ORGANISATION.public_keys(ALPHA).sealing.public,
    )
    rig.states.full = True
    rig.give("notice", sealed)
    # Not kept, so not acknowledged; but it counts from the moment at which it was read.
    assert rig.link.standing("flights") == "behind-revision"
    assert [told[0] for told in rig.told()] == ["bundle", "bundle"]
    rig.states.full = False
    rig.give("notice", sealed)
    assert rig.told()[-1] == ("notice", 1, "applied", "")
    again = Rig(tmp_path, MemoryBroker())
    assert again.link.standing("flights") == "behind-revision"
    again.bundle(2)
    assert again.link.standing("flights") == "behind-revision"
    again.bundle(3)
    assert again.link.standing("flights") == "no-lease"
