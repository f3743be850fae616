"""Keys that are renewed by themselves, that end at once, and who holds which of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from adminapp.audit.models import Entry
from adminapp.core.errors import Conflict, Forbidden, Invalid
from adminapp.distribution import coverage, rotation, services
from adminapp.distribution.models import EncodingEpoch, Recipient, RotationSchedule
from adminapp.identity import services as identity
from adminapp.identity.models import Domain
from adminapp.trustgroups import emergency
from adminapp.trustgroups import services as trustgroups
from adminapp.trustgroups.models import KeyEpoch
from policyengine.primitives.rand import SeededRandom
from tests.support.audiences import Plane
from tests.support.kept_planes import PlaneKeeper
from tests.unit.distribution.conftest import at_rest, patient

AIRFRAME, HOP = "key:airframe", "overlay:a"


@pytest.fixture
def flights(plane: Plane, planes: PlaneKeeper) -> Domain:
    return patient(at_rest(plane, planes, "flights"))


@pytest.fixture
def settled(plane: Plane, flights: Domain) -> Plane:
    plane.lease_all()
    return plane


def states(ref: str) -> dict[int, str]:
    return dict(KeyEpoch.objects.filter(group_ref=ref).values_list("number", "state"))


def make_due(key: str) -> None:
    RotationSchedule.objects.filter(key=key).update(next_at=timezone.now())


def test_a_key_is_renewed_when_its_time_is_up_and_not_before(
    settled: Plane, flights: Domain
) -> None:
    row = rotation.set_schedule(actor=None, domain=flights, key=AIRFRAME, every_days=30)
    assert timedelta(days=26) < row.next_at - timezone.now() <= timedelta(days=30)
    assert services.run_due() == 0
    make_due(AIRFRAME)
    assert services.run_due() == 1
    assert services.run_due() == 0
    settled.settle()
    assert states(AIRFRAME) == {1: "retired", 2: "current"}
    # Only that one.
    assert states(HOP) == {1: "current"}
    row.refresh_from_db()
    assert row.last_at is not None
    assert row.next_at > timezone.now() + timedelta(days=26)
    assert Entry.objects.filter(action="rotation.ran", object_id=str(row.pk)).count() == 1


def test_all_leaves_out_what_has_a_schedule_of_its_own(settled: Plane, flights: Domain) -> None:
    rotation.set_schedule(actor=None, domain=flights, key=AIRFRAME, every_days=30)
    rotation.set_schedule(actor=None, domain=flights, key="all", every_days=90)
    make_due("all")
    assert services.run_due() == 1
    settled.settle()
    assert states(AIRFRAME) == {1: "current"}
    assert states(HOP) == {1: "retired", 2: "current"}


def test_encodings_are_renewed_and_wait_for_what_is_on_its_way(
    settled: Plane, flights: Domain
) -> None:
    from adminapp.distribution import rollouts

    rotation.set_schedule(actor=None, domain=flights, key="encodings", every_days=7)
    assert rollouts.begin(domain=flights, cause="encoding") is not None
    make_due("encodings")
    assert services.run_due() == 0
    settled.settle()
    assert services.run_due() == 1
    settled.settle()
    found = EncodingEpoch.objects.filter(domain=flights).values_list("number", "state")
    assert dict(found) == {1: "retired", 2: "retired", 3: "current"}


def test_blind_keys_of_a_domain_that_hides_nothing_are_none(
    settled: Plane, flights: Domain
) -> None:
    rotation.set_schedule(actor=None, domain=flights, key="blind", every_days=7)
    make_due("blind")
    assert services.run_due() == 1
    settled.settle()
    assert not flights.blind_epochs.exists()


@pytest.mark.parametrize("jitter", [0, 10, 50])
def test_the_next_time_is_at_most_so_much_earlier(jitter: int) -> None:
    now = timezone.now()
    random = SeededRandom(b"rotation")
    found = [rotation.next_after(now, 100, jitter, random) - now for _ in range(200)]
    assert max(found) <= timedelta(days=100)
    assert min(found) >= timedelta(days=100 - jitter)
    assert len(set(found)) == (1 if jitter == 0 else 200)


def test_who_may_not_schedule_changes_nothing(settled: Plane, flights: Domain) -> None:
    stranger = identity.create_user(actor=None, username="stranger")
    with pytest.raises(Forbidden):
        rotation.set_schedule(actor=stranger, domain=flights, key=HOP, every_days=3)
    for wrong in ({"key": "key:none"}, {"every_days": 0}, {"jitter_percent": 51}):
        values: dict[str, Any] = {"key": HOP, "every_days": 3, **wrong}
        with pytest.raises(Invalid):
            rotation.set_schedule(actor=None, domain=flights, **values)
    assert not RotationSchedule.objects.exists()


def test_a_schedule_is_changed_and_removed(settled: Plane, flights: Domain) -> None:
    row = rotation.set_schedule(actor=None, domain=flights, key=HOP, every_days=3)
    changed = rotation.set_schedule(
        actor=None, domain=flights, key=HOP, every_days=300, expected_version=row.version
    )
    assert changed.next_at > timezone.now() + timedelta(days=200)
    with pytest.raises(Conflict):
        rotation.remove_schedule(actor=None, schedule=changed, expected_version=row.version)
    rotation.remove_schedule(actor=None, schedule=changed)
    assert not RotationSchedule.objects.exists()


def cells(domain: Domain, key: str) -> dict[str, dict[int, str]]:
    (found,) = [each for each in coverage.coverage(domain) if each.key == key]
    return {each.agent: {cell.epoch: cell.held for cell in each.cells} for each in found.agents}


def test_coverage_is_what_agents_signed_and_not_what_was_sent(
    settled: Plane, flights: Domain
) -> None:
    assert cells(flights, AIRFRAME) == {"alpha": {1: "current"}, "beta": {1: "current"}}
    settled.audiences["agent:beta"].deaf = True
    trustgroups.rotate_keys(actor=None, domain=flights, group_refs=[AIRFRAME], reason="old")
    services.advance_all()
    settled.settle()
    assert cells(flights, AIRFRAME) == {
        "alpha": {1: "current", 2: "staged"},
        "beta": {1: "current", 2: ""},
    }
    gone = timezone.now() - timedelta(seconds=1)
    Recipient.objects.filter(audience="agent:beta").update(leased_until=gone)
    (found,) = [each for each in coverage.coverage(flights) if each.key == AIRFRAME]
    assert [(each.agent, each.silent) for each in found.agents] == [
        ("alpha", False),
        ("beta", True),
    ]


def test_who_loses_what_is_told_before_an_epoch_ends(settled: Plane, flights: Domain) -> None:
    settled.audiences["agent:beta"].deaf = True
    trustgroups.rotate_keys(actor=None, domain=flights, group_refs=[AIRFRAME], reason="old")
    services.advance_all()
    settled.settle()
    found = coverage.losses(KeyEpoch.objects.get(group_ref=AIRFRAME, number=1))
    assert found.holders == ("alpha", "beta")
    assert (found.successor, found.without) == (("alpha",), ("beta",))
    assert found.replaced
    assert found.attributes
    assert all(name.count(".") == 1 for name in found.attributes)


@pytest.mark.parametrize("state", ["current", "draining", "staged"])
def test_any_epoch_can_end_at_once(settled: Plane, flights: Domain, state: str) -> None:
    number = 1
    if state != "current":
        fresh = trustgroups.stage_epoch(actor=None, domain=flights, group_ref=AIRFRAME)
        number = fresh.number if state == "staged" else 1
        if state == "draining":
            trustgroups.switch_epoch(actor=None, epoch=fresh)
    epoch = KeyEpoch.objects.get(group_ref=AIRFRAME, number=number)
    assert epoch.state == state
    with pytest.raises(Invalid):
        emergency.retire_now(actor=None, epoch=epoch, reason=" ")
    stranger = identity.create_user(actor=None, username="stranger")
    with pytest.raises(Forbidden):
        emergency.retire_now(actor=stranger, epoch=epoch, reason="envy")
    ended = emergency.retire_now(actor=None, epoch=epoch, reason="it was copied")
    assert (ended.state, ended.retired_at is not None) == ("retired", True)
    settled.settle()
    services.advance_all()
    settled.settle()
    held = states(AIRFRAME)
    assert held[number] == "retired"
    assert list(held.values()).count("current") == 1
    for name in ("alpha", "beta"):
        wraps = settled.audiences[f"agent:{name}"].agent("flights").wraps
        assert (AIRFRAME, number) not in {(wrap.group, wrap.epoch) for wrap in wraps}
    (entry,) = Entry.objects.filter(action="key-epoch.revoked")
    assert entry.after["reason"] == "it was copied"
    with pytest.raises(Conflict):
        emergency.retire_now(actor=None, epoch=ended, reason="again")
