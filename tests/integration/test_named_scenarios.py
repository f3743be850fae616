"""The eight things that an operator fears, played through on the real code on a virtual clock.

In each of them meters publish and tenants and guards read while it happens. What must hold in all
of them is judged by what agents sign, what publishers are told and what readers get (`verdict`):
nothing accepted is lost, nothing comes twice or to whom it may not, nothing reaches a revoked
party later than a lease after T0, no agent gives anything without a lease, no revision goes back.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from adminapp.distribution.models import EncodingEpoch, Notice, Revocation, Rollout
from adminapp.identity import services as identity
from adminapp.identity.models import Principal
from adminapp.trustgroups import selectors as groups
from adminapp.trustgroups import services as trust
from adminapp.trustgroups.models import KeyEpoch
from brokers.simulation.timeline import START
from policyengine.bundles import hop_queue
from tests.support.audiences import live_authority, plane
from tests.support.fault_domain import ALARM, DOMAIN, LEASE_SECONDS
from tests.support.known_keys import held_tag_keys
from tests.support.played import CONTROL, Played, site
from tests.unit.distribution.test_numbering import lost

__all__ = ["live_authority", "plane", "site"]

TEN_MINUTES = 600.0
A_DAY = 86_400.0


def after(t0: float, times: list[float]) -> list[float]:
    """How long after T0 somebody still got something."""
    return [at - t0 for at in times if at > t0]


def moment(text: str) -> float:
    """A receipt's time as the history has it."""
    return datetime.fromisoformat(text).timestamp() - START


def told(receipt: dict[str, Any]) -> dict[str, bool]:
    """By agent, whether it acknowledged the notice."""
    return {each["agent"]: each["acknowledged"] is not None for each in receipt["notices"]}


def standings(site: Played) -> dict[str, str]:
    """What the agents' pages say of the domain."""
    return {name: agent.link.standing(DOMAIN) for name, agent in site.agents.items()}


def epochs() -> dict[int, str]:
    return dict(EncodingEpoch.objects.values_list("number", "state"))


def test_an_agent_offline_during_a_revocation(site: Played) -> None:
    """Beta hears nothing from the control plane any more, and goes on until its lease ends."""
    site.flow(3)
    site.nodes["beta"].cut(CONTROL)
    t0, row = site.timeline.now, site.revoke("tenant-1")
    events = site.flow(LEASE_SECONDS + 5)
    # Its home did not know: it is the lease that ended this, and by itself.
    late = after(t0, site.when("tenant-1"))
    assert late
    assert max(late) <= LEASE_SECONDS
    assert standings(site) == {"alpha": "serving", "beta": "lease-over", "gamma": "serving"}
    (receipt,) = site.finish(row)
    assert receipt["unreachable"] == ["beta"]
    assert told(receipt) == {"beta": False, "gamma": True}
    assert receipt["lease_seconds"] == LEASE_SECONDS
    assert moment(receipt["enforced_by"]) == pytest.approx(t0 + LEASE_SECONDS, abs=0.01)
    assert max(each["seconds_after_t0"] or 0 for each in receipt["notices"]) < 1
    assert site.held("beta") < site.held("alpha")
    # It is back: what waited for the others at home there arrives, and nothing for the revoked.
    waiting = set(events) - site.received("guard-1")
    assert waiting
    site.nodes["beta"].heal(CONTROL)
    site.wait(site.serving, "beta to be back")
    site.flow(3)
    site.wait(site.settled, "everything to arrive")
    assert waiting <= site.received("guard-1")
    assert max(after(t0, site.when("tenant-1"))) <= LEASE_SECONDS
    assert Notice.objects.get(audience="agent:beta").state == "applied"
    assert site.verdict() == []


def test_what_an_offline_agent_misses_of_a_retired_epoch_stands_in_its_dead_letters(
    site: Played,
) -> None:
    """A revocation that renews everything does not wait; what it then cannot open is kept."""
    site.flow(3)
    site.nodes["beta"].cut(CONTROL)
    held_tag_keys("tenant-1")
    row = site.revoke("tenant-1")
    events = site.flow(LEASE_SECONDS + 10)
    (receipt,) = site.finish(row)
    assert (receipt["unreachable"], receipt["epochs"]) == (["beta"], {"from": 1, "to": 2})
    site.nodes["beta"].heal(CONTROL)
    site.wait(site.serving, "beta to be back")
    site.flow(3)
    site.wait(site.settled, "everything to arrive")
    missed = {event for event in events if site.state_of(event) == "accepted"}
    missed -= site.received("guard-1")
    refused = {
        each["publication"]
        for each in site.agents["beta"].statistics.last_refusals()
        if (each["kind"], each["reason"]) == ("hop", "epoch-retired")
    }
    assert missed
    assert missed == refused
    assert site.brokers["a"].waiting("pc.dead.beta") == len(missed)
    assert [each for each in site.verdict() if " lacks " not in each] == []


def test_two_revocations_at_once(site: Played) -> None:
    """Two in the same moment share one switch; a third overtakes it, and gets its own."""
    site.flow(3)
    for name in ("tenant-0", "guard-1", "tenant-3"):
        held_tag_keys(name)
    t0 = site.timeline.now
    first, second = site.revoke("tenant-0"), site.revoke("guard-1")
    site.flow(2)
    assert not Notice.objects.exclude(state="applied").exists()
    running = Rollout.objects.exclude(state="complete").get()
    urgent, third = site.timeline.now, site.revoke("tenant-3")
    site.flow(1)
    # It is enforced though the switch before it still goes on.
    running.refresh_from_db()
    assert running.state != "complete"
    assert set(third.notices.values_list("state", flat=True)) == {"applied"}
    site.flow(30)
    receipts = site.finish(first, second, third)
    assert [each["epochs"] for each in receipts] == [
        {"from": 1, "to": 2}, {"from": 1, "to": 2}, {"from": 2, "to": 3},
    ]  # fmt: skip
    assert [each["principal"]["name"] for each in receipts] == ["tenant-0", "guard-1", "tenant-3"]
    assert [each["unreachable"] for each in receipts] == [[], [], []]
    numbers = {name: [] for name in site.agents}
    for address, number in Notice.objects.order_by("pk").values_list("audience", "number"):
        numbers[address.partition(":")[2]].append(number)
    assert numbers == {"alpha": [1], "beta": [1, 2], "gamma": [1, 2, 3]}
    site.wait(site.settled, "everything to arrive")
    for name, since in (("tenant-0", t0), ("guard-1", t0), ("tenant-3", urgent)):
        assert max(after(since, site.when(name)), default=0) < 1
    assert site.verdict() == []


def test_a_switch_with_events_in_flight(site: Played) -> None:
    """All keys and encodings move on while events stand in a queue, sealed with the old ones."""
    before = site.flow(2)
    site.nodes["beta"].cut("a")
    domain = site.domain
    refs = groups.group_refs(domain)
    trust.rotate_keys(actor=None, domain=domain, group_refs=refs, reason="a year is over")
    held_tag_keys("tenant-0")
    row = site.revoke("tenant-0")
    published = []

    def switched() -> bool:
        published.extend(site.flow(0.5))
        return epochs().get(2) == "current"

    site.wait(switched, "the switch")
    # Beta, at whom they will have to be opened, does not even have them yet.
    flying = site.brokers["a"].waiting(hop_queue("beta", DOMAIN))
    assert flying > 0
    site.nodes["beta"].heal("a")
    published += site.flow(40)
    (receipt,) = site.finish(row)
    site.wait(site.settled, "everything to arrive")
    assert {site.state_of(event) for event in (*before, *published)} == {"accepted"}
    assert set(published) <= site.received("guard-1")
    assert set(receipt["keys_replaced"]) == {f"{ref} 2" for ref in refs}
    assert epochs() == {1: "retired", 2: "current"}
    assert set(KeyEpoch.objects.values_list("number", "state")) == {(1, "retired"), (2, "current")}
    assert site.verdict() == []


def test_a_publisher_with_old_keys(site: Played) -> None:
    """It hears of no new keys: from their end on it is refused, and resends once it has others."""
    site.flow(2)
    site.nodes["meter-1"].cut(CONTROL)
    held_tag_keys("tenant-0")
    row = site.revoke("tenant-0")

    def retired() -> bool:
        site.flow(0.5, meters=["meter-0"])
        return epochs() == {1: "retired", 2: "current"}

    overlapping = site.flow(2, meters=["meter-1"])
    site.wait(retired, "the old epoch to end")
    assert {site.state_of(event) for event in overlapping} == {"accepted"}
    late = site.flow(5, meters=["meter-1"])
    refusals = [
        (each["reason"], site.names[str(each["sender"])])
        for agent in site.agents.values()
        for each in agent.statistics.last_refusals()
    ]
    assert set(refusals) == {("epoch-retired", "meter-1")}
    assert {site.state_of(event) for event in late} == {""}
    assert not set(late) & site.received("guard-0")
    # Its keys arrive: every event is sealed anew, and none is lost.
    site.nodes["meter-1"].heal(CONTROL)
    site.wait(site.settled, "everything to arrive")
    assert {site.state_of(event) for event in late} == {"accepted"}
    assert set(late) <= site.received("guard-0") & site.received("guard-1")
    site.finish(row)
    # Who has lost its rights goes on with the keys that it has: nothing of it goes anywhere.
    site.nodes["meter-1"].cut(CONTROL)
    t0, row = site.timeline.now, site.revoke("meter-1")
    site.flow(1, meters=["meter-0"])
    ended = site.flow(30, meters=["meter-1"])
    (receipt,) = site.finish(row)
    assert receipt["epochs"] == {"from": 2, "to": 3}
    assert max(each["seconds_after_t0"] for each in receipt["notices"]) < 1
    assert {site.state_of(event) for event in ended} == {""}
    for name in ("guard-0", "guard-1"):
        assert not set(ended) & site.received(name)
        assert not after(t0 + 2, site.when(name))
    assert site.verdict() == []


def test_the_control_plane_down_for_ten_minutes(site: Played) -> None:
    """It dies right after T0, before anybody was told: leases end, and everything waits."""
    site.flow(3)
    t0 = site.timeline.now
    row = site.revoke("tenant-1")
    site.stop("control-plane")
    site.flow(LEASE_SECONDS + 1)
    assert max(after(t0, site.when("tenant-1"))) <= LEASE_SECONDS
    assert set(standings(site).values()) == {"lease-over"}
    quiet, waiting = site.timeline.now, []
    while site.timeline.now < t0 + TEN_MINUTES:
        waiting += site.flow(2)
        site.run(58)
    # Nobody gets anything, and no publisher is told that its event was taken.
    assert all(not after(quiet, site.when(name)) for name in site.clients)
    assert {site.state_of(event) for event in waiting} == {""}
    held = {name: site.held(name) for name in site.agents}
    site.restart("control-plane")
    back = site.wait(lambda: site.serving() and site.settled(), "everybody to be back")
    assert back < 60
    assert {site.state_of(event) for event in waiting} == {"accepted"}
    assert set(waiting) <= site.received("guard-0") & site.received("guard-1")
    (receipt,) = site.finish(row)
    # Nobody could say so in time: it is the end of the leases that is guaranteed, and shown.
    assert moment(receipt["enforced_by"]) == pytest.approx(t0 + LEASE_SECONDS, abs=0.01)
    assert set(row.notices.values_list("state", flat=True)) == {"applied"}
    assert all(site.held(name) >= held[name] for name in held)
    assert max(after(t0, site.when("tenant-1"))) <= LEASE_SECONDS
    assert site.verdict() == []


def test_the_broker_of_one_overlay_down(site: Played) -> None:
    """Alarms wait for their overlay; readings on the other one, and the revocation, do not."""
    site.flow(3)
    site.break_broker("b")
    begun = site.timeline.now
    t0, row = begun, site.revoke("tenant-1")
    readings = [site.publish("meter-0", zone=3) for _ in range(5)]
    alarms = [site.publish("meter-0", zone, ALARM) for zone in (1, 2, 3)]
    site.run(60)
    assert {site.state_of(event) for event in readings} == {"accepted"}
    assert set(readings) <= site.received("tenant-3")
    assert max(after(begun, site.when("tenant-3"))) < 1
    assert {site.state_of(event) for event in alarms} == {""}
    (receipt,) = site.finish(row)
    assert told(receipt) == {"beta": True, "gamma": True}
    assert max(each["seconds_after_t0"] for each in receipt["notices"]) < 1
    assert site.serving()
    site.brokers["b"].restart()
    site.wait(site.settled, "everything to arrive")
    assert {site.state_of(event) for event in alarms} == {"accepted"}
    assert set(alarms) <= site.received("guard-0")
    assert alarms[2] in site.received("tenant-3")
    assert not after(t0 + 1, site.when("tenant-1"))
    assert site.verdict() == []


def test_everything_restarted_at_once(site: Played) -> None:
    """In the midst of a switch: processes, brokers and the authority begin with their disks."""
    site.flow(3)
    taken = [site.publish("meter-0", zone) for zone in range(4)]
    site.until(lambda: site.state_of(taken[0]) == "accepted", "the first answer")
    held_tag_keys("tenant-0")
    t0, row = site.timeline.now, site.revoke("tenant-0")
    site.until(Rollout.objects.filter(state="staging").exists, "the switch to begin")
    held = {name: site.held(name) for name in site.agents}
    for broker in site.brokers:
        site.break_broker(broker)
    site.stop()
    site.restart_authority()
    for broker in site.brokers.values():
        broker.restart()
    row.refresh_from_db()
    assert row.state == Revocation.State.STAGING
    site.restart()
    # Nothing is delivered before a lease; then everybody goes on from where they were.
    assert set(standings(site).values()) == {"no-lease"}
    assert all(site.held(name) >= held[name] for name in held)
    site.wait(site.serving, "everybody to be back")
    later = site.flow(30)
    (receipt,) = site.finish(row)
    site.wait(site.settled, "everything to arrive")
    assert receipt["unreachable"] == []
    assert receipt["epochs"] == {"from": 1, "to": 2}
    kept = [event for event in taken if site.state_of(event) == "accepted"]
    assert kept
    assert set(kept) | set(later) <= site.received("guard-0")
    assert max(after(t0, site.when("tenant-0")), default=0) < 1
    assert site.verdict() == []


def test_the_database_restored_from_yesterday(site: Played) -> None:
    """It forgets a revocation with its switch, and a day of changes; nobody comes back."""
    site.flow(3)
    with lost():
        site.stop()
        site.run(A_DAY)
        site.restart()
        site.wait(site.serving, "the morning after")
        for title in ("one", "two", "three"):
            identity.update_domain(actor=None, domain=site.domain, data={"title": title})
            site.flow(1)
        held_tag_keys("tenant-1")
        t0, forgotten = site.timeline.now, site.revoke("tenant-1")
        site.finish(forgotten)
        site.flow(2)
        newest = {name: site.held(name) for name in site.agents}
        assert epochs() == {1: "retired", 2: "current"}
        site.stop("control-plane")
    assert Principal.objects.get(name="tenant-1").state == "active"
    assert site.domain.revision < min(newest.values())
    restored = site.timeline.now
    held_tag_keys("tenant-1")
    site.restart("control-plane")
    site.wait(lambda: Revocation.objects.filter(state="complete").exists(), "the second end")
    site.wait(site.serving, "everybody to be back")
    site.flow(3)
    site.wait(site.settled, "everything to arrive")
    again = Revocation.objects.get()
    assert (again.uid, again.principal.name) == (forgotten.uid, "tenant-1")
    assert Principal.objects.get(name="tenant-1").state != "active"
    assert max(after(t0, site.when("tenant-1")), default=0) < 1
    assert after(restored, site.when("tenant-3"))
    # Numbers go on above what agents hold, and no number of an epoch means other keys.
    assert all(site.held(name) > newest[name] for name in newest)
    assert epochs()[3] == "current"
    assert EncodingEpoch.objects.get(number=2).cause == "forgotten"
    assert set(Notice.objects.values_list("number", "state")) == {(2, "applied")}
    assert site.verdict() == []
