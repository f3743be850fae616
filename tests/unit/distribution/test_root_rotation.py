"""A rotation of online keys while events flow, with the real code of agents and control plane."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from adminapp.core.authority import get_authority
from adminapp.distribution import roots, selectors, services
from adminapp.distribution.models import Bundle
from policyengine.bundles import (
    REQUESTS_QUEUE,
    Lease,
    control_queue,
    decode_request,
    decode_roots,
    delivery_queue,
    encode_control,
    seal_lease,
    verify_lease_request,
)
from policyengine.primitives.signatures import sign
from tasks.authority.store import AuthorityState
from tests.support.audiences import Plane
from tests.support.live_agents import LiveSite
from tests.unit.distribution.inspected import READING
from tests.unit.distribution.test_roots import own_plane, rotate, state

__all__ = ["own_plane", "state"]
AGENTS = {"alpha": "a", "beta": "a"}


@pytest.fixture
def live(own_plane: Plane, tmp_path: Path) -> Iterator[LiveSite]:
    """The heating company on real agents that pin the first root; a customer subscribes."""
    (pinned,) = decode_roots(get_authority().root().roots)
    folder = tmp_path / "agents"
    folder.mkdir()
    made = LiveSite(own_plane, "heating", AGENTS, folder, pinned)
    made.run()
    made.subscribe("X-104211", "Telemetry")
    made.run()
    yield made
    made.close()


def publish(live: LiveSite, count: int) -> list[str]:
    return [live.publish("meter-gateway", "WaterTemperature", READING) for _ in range(count)]


def ask_again(live: LiveSite) -> None:
    """Time for every agent's next question for a lease, and all that follows from it."""
    live.clock.ahead += 3
    live.run()


def trusted() -> set[int]:
    """The roots that agents say they trust."""
    entries = [entry for row in selectors.agent_rows() for entry in row.domains]
    return {entry.root for entry in entries if entry.root}


def got(live: LiveSite) -> list[str]:
    """The events that the customer got, each as often as it came, by their numbers."""
    return sorted(live.received("X-104211"))


def forge_lease(live: LiveSite, name: str, state: AuthorityState) -> None:
    """Answer an agent's newest question as whoever stole the retired lease key can."""
    agent, keys = live.agents[name], live.plane.audiences[f"agent:{name}"]
    agent.link.ask_soon()
    agent.link.step(0)
    asked = [decode_request(body) for body in live.broker.bodies(REQUESTS_QUEUE)]
    mine = [each for each in asked if each.kind == "lease" and each.audience == keys.address]
    wish = verify_lease_request(mine[-1], keys.signing.public)
    lease = Lease(
        audience=keys.address,
        nonce=wish.nonce,
        time=live.clock.wall(),
        seconds={"heating": 30},
        domains={"heating": {"minimum_revision": 0, "minimum_notice": 0}},
        root=wish.root,
    )
    sealed = seal_lease(
        lease, sign=partial(sign, state.signing["lease"]), recipient=keys.sealing.public
    )
    live.broker.put(control_queue(keys.address), encode_control("lease", "", sealed))


def test_no_event_is_lost_and_none_is_delivered_under_the_retired_keys(
    live: LiveSite, own_plane: Plane, state: AuthorityState
) -> None:
    sent = publish(live, 3)
    live.run()
    assert got(live) == sent
    ask_again(live)
    assert trusted() == {1}
    old = bytes(Bundle.objects.filter(audience="agent:alpha").latest("revision").message)
    # Events wait in the queues as the keys change.
    sent += publish(live, 3)
    rotate(state, "policy", "lease", "notice")
    live.run()
    sent += publish(live, 3)
    ask_again(live)
    assert {agent.link.root_version for agent in live.agents.values()} == {2}
    # Before anything is signed anew: the policy stays in force, on a lease under the new key.
    sent += publish(live, 3)
    live.run()
    assert services.reconcile()["resigned"] == 1
    live.run()
    own_plane.anchors = get_authority().anchors()  # clients followed as well
    sent += publish(live, 3)
    ask_again(live)
    assert got(live) == sent
    assert trusted() == {2}
    assert roots.agents_behind(2) == 0

    # From here on somebody has the retired keys, and the control plane is cut off.
    live.cut |= set(AGENTS)
    live.clock.ahead += 40
    waiting = publish(live, 2)
    for name, agent in live.agents.items():
        forge_lease(live, name, state)
        body = encode_control("bundle", "heating", old)
        live.broker.put(control_queue(f"agent:{name}"), body)
        for _ in range(5):
            agent.step()
        assert agent.link.standing("heating") == "lease-over"
    refused = [each.reason for each in live.agents["alpha"].link.rejections]
    assert refused[-2:] == ["signature", "signature"]
    assert live.broker.bodies(delivery_queue(live.handle("X-104211"))) == []
    # Healed: what waited is delivered, once, under the new keys.
    live.cut.clear()
    ask_again(live)
    assert got(live) == sent + waiting


def test_an_agent_that_does_not_follow_is_told(
    live: LiveSite, own_plane: Plane, state: AuthorityState
) -> None:
    ask_again(live)
    live.cut.add("beta")
    rotate(state, "lease")
    ask_again(live)
    ask_again(live)
    assert live.agents["beta"].link.root_version == 1
    assert trusted() == {1, 2}
    assert roots.agents_behind(2) == 1
