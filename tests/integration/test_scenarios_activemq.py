"""Named scenarios on real parts: two ActiveMQ, agents as processes, PostgreSQL, Redis, Celery.

Each begins while meters publish and everybody reads, and ends with all histories judged: nothing
accepted is lost or comes twice, nothing reaches a revoked party later than a lease after T0, and by
the agents' own logs nothing that was in force became older.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime

import pytest

from tests.support.fault_domain import ALARM, DOMAIN, LEASE_SECONDS, TYPE
from tests.support.scenario_site import CONTROL, LATE, OVERLAY, ScenarioSite

pytestmark = [pytest.mark.activemq, pytest.mark.slow]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScenarioSite]:
    """One for all: whoever was revoked stays revoked."""
    made = ScenarioSite(tmp_path_factory.mktemp("scenarios"))
    try:
        made.bring_up()
        yield made
    finally:
        made.stop()


def test_an_agent_offline_during_a_revocation(site: ScenarioSite) -> None:
    site.cut_beta(CONTROL)
    t0 = site.revoke("tenant-1")
    receipt = site.receipt("tenant-1")
    assert receipt["unreachable"] == ["beta"]
    told = {each["agent"]: each["acknowledged"] for each in receipt["notices"]}
    assert told["beta"] is None
    assert told["gamma"] is not None
    ends = datetime.fromisoformat(receipt["enforced_by"]).timestamp() - t0
    assert ends == pytest.approx(LEASE_SECONDS, abs=0.1)
    assert site.standing("beta") == "lease-over"
    # Its own lease, nothing else, has ended this.
    assert max(site.after(t0, "tenant-1"), default=0) <= LEASE_SECONDS + LATE
    site.proxies[CONTROL].heal(reset=True)
    site.wait_serving()
    site.wait_flow()
    assert site.problems() == []


def test_a_switch_with_events_in_flight(site: ScenarioSite) -> None:
    begun = time.time()
    site.cut_beta(OVERLAY)
    refs = site.call("rotate", DOMAIN)
    site.wait(
        lambda: all(site.call("key-epochs").get(f"{ref} 2") == "current" for ref in refs),
        "the switch",
    )
    # What alpha sent beta meanwhile is sealed with keys of before, and waits for beta.
    flying = site.events(ALARM, begun)
    assert flying - {each["event"] for each in site.got("guard-1")}
    site.proxies[OVERLAY].heal()
    site.wait(lambda: flying <= {each["event"] for each in site.got("guard-1")}, "what flew")
    site.wait(
        lambda: all(site.call("key-epochs")[f"{ref} 1"] == "retired" for ref in refs),
        "the keys of before to end",
    )
    site.wait_serving()
    assert site.problems() == []
    assert site.events(ALARM, begun, "refused") == set()


def test_the_broker_of_one_overlay_down(site: ScenarioSite) -> None:
    site.kill(OVERLAY)
    down = time.time()
    t0 = site.revoke("tenant-3")
    receipt = site.receipt("tenant-3")
    # Readings travel on the other overlay, and control messages too.
    assert receipt["unreachable"] == []
    site.wait(lambda: len(site.events(TYPE, down)) > 5, "readings to be taken")
    site.wait(lambda: len(site.after(down, "guard-0")) > 3, "readings to arrive")
    assert site.events(ALARM, down) == set()
    waiting = site.events(ALARM, down, "published")
    assert waiting
    site.again(OVERLAY)
    site.wait(lambda: waiting <= site.events(ALARM, down), "alarms to be taken")
    site.wait_flow()
    assert site.problems() == []
    assert max(site.after(t0, "tenant-3"), default=0) <= LATE


def test_everything_restarted_at_once(site: ScenarioSite) -> None:
    held = {agent: site.held(agent) for agent in site.agents}
    t0 = site.revoke("tenant-0")
    site.restart_everything()
    site.wait_serving()
    site.open_clients()
    site.wait_flow()
    receipt = site.receipt("tenant-0")
    assert receipt["principal"]["name"] == "tenant-0"
    assert all(site.held(agent) >= held[agent] for agent in held)
    # Whatever was accepted before is there, and nobody who was revoked is back.
    assert site.problems() == []
    for name in ("tenant-0", "tenant-1", "tenant-3"):
        assert max(site.after(t0, name), default=0) <= LEASE_SECONDS + LATE
