"""Work of the outbox over crashes: lost messages, dying workers, a broker that is away."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from adminapp.distribution import delivery, services
from adminapp.distribution.models import Bundle
from adminapp.identity.models import Domain
from adminapp.outbox import relay
from adminapp.outbox import services as outbox
from adminapp.outbox.models import OutboxRow
from brokers.ports import TransportError
from tasks import handlers
from tests.support.audiences import Plane

LATER = timedelta(seconds=31)


def age(**changes: object) -> None:
    OutboxRow.objects.exclude(state="done").update(**changes)


def test_a_row_is_handed_out_once_and_again_when_it_was_lost(db: None) -> None:
    outbox.put(topic="compile", key="compile:1:1", payload={"domain": 1})
    assert relay.hand_out() == [("compile", "compile:1:1")]
    assert relay.hand_out() == []
    # The Celery message was lost: nobody claimed the row.
    age(available_at=timezone.now() - LATER)
    assert relay.hand_out() == [("compile", "compile:1:1")]


def test_two_workers_do_a_row_once(plane: Plane, heating: Domain) -> None:
    key = OutboxRow.objects.filter(topic="compile").first().key
    assert handlers.work(key, sender=lambda: plane)
    assert not handlers.work(key, sender=lambda: plane)


def test_a_worker_that_died_holds_a_row_for_a_while_only(plane: Plane, heating: Domain) -> None:
    row = OutboxRow.objects.filter(topic="compile").order_by("-id").first()
    assert outbox.claim_key(key=row.key) is not None
    assert outbox.sweep() == 0
    age(claimed_at=timezone.now() - timedelta(seconds=61))
    assert outbox.sweep() > 0
    plane.settle()
    heating.refresh_from_db()
    held = plane.audiences["agent:alpha"].bundles["heating"]
    assert held.header.revision == heating.revision


def test_a_long_run_shows_that_it_is_alive(db: None) -> None:
    outbox.put(topic="recompute", key="recompute:1:0", payload={"job": 1})
    outbox.claim_key(key="recompute:1:0")
    age(claimed_at=timezone.now() - timedelta(seconds=61))
    relay.touch("recompute:1:0")
    assert outbox.sweep() == 0


def test_a_bundle_counts_as_sent_only_once_the_broker_has_it(plane: Plane, heating: Domain) -> None:
    services.compile_domain(heating.pk)
    plane.broken = True
    plane.work()
    assert set(Bundle.objects.values_list("state", flat=True)) == {"built"}
    failed = OutboxRow.objects.filter(topic="push", state="pending")
    assert failed.exists()
    assert "the broker is away" in failed.first().error
    plane.broken = False
    age(available_at=timezone.now())
    plane.settle()
    assert set(Bundle.objects.values_list("state", flat=True)) == {"applied"}


class Away:
    """A connection to a broker that is not there."""

    def send_many(self, *_: object, **__: object) -> None:
        raise TransportError("not connected to the broker")


def test_a_broker_that_is_away_for_long_is_tried_again_soon_and_never_given_up(
    plane: Plane, heating: Domain
) -> None:
    services.compile_domain(heating.pk)
    (key, *_) = OutboxRow.objects.filter(topic="push").values_list("key", flat=True)
    for _ in range(outbox.MAX_ATTEMPTS + 1):
        assert handlers.work(key, sender=Away)
        row = OutboxRow.objects.get(key=key)
        assert (row.state, row.attempts) == ("pending", 0)
        assert row.available_at <= timezone.now() + timedelta(seconds=10)
        age(available_at=timezone.now())
    plane.settle()
    assert set(Bundle.objects.values_list("state", flat=True)) == {"applied"}


def push_rows() -> dict[str, str]:
    return dict(OutboxRow.objects.filter(topic="push").values_list("key", "state"))


def test_bundles_that_wait_are_sent_together_and_who_sends_says_that_it_is_alive(
    plane: Plane, heating: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    touched: list[tuple[str, ...]] = []
    monkeypatch.setattr(relay, "touch", lambda *keys: touched.append(keys))
    compiling = OutboxRow.objects.filter(topic="compile").latest("pk").key
    assert handlers.work(compiling, sender=lambda: plane)
    assert set(touched) == {(compiling,)}
    touched.clear()
    keys = list(push_rows())
    assert 6 < len(keys) <= 20
    monkeypatch.setattr(delivery, "MOST_BYTES", 1)
    assert handlers.work(keys[0], sender=lambda: plane)
    assert set(push_rows().values()) == {"done"}
    assert set(Bundle.objects.values_list("state", flat=True)) == {"sent"}
    # each is too large to be held in memory beside another: agents first, in their order
    assert [set(one) for one in touched] == [set(keys)] * len(keys)
    assert plane.sent[:2] == ["pc.control.agent.alpha", "pc.control.agent.beta"]
    assert not handlers.work(keys[1], sender=lambda: plane)


def test_one_that_cannot_be_sent_holds_up_the_others_once(
    plane: Plane, heating: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    services.compile_domain(heating.pk)
    bad = Bundle.objects.get(audience="agent:beta").pk
    make = services.bundle_parcels

    def cannot(bundle_ids: list[int]) -> object:
        if bad in bundle_ids:
            raise MemoryError
        return make(bundle_ids)

    monkeypatch.setattr(services, "bundle_parcels", cannot)
    keys = list(push_rows())
    assert handlers.work(keys[0], sender=lambda: plane)
    assert set(push_rows().values()) == {"pending"}
    age(available_at=timezone.now())
    for key in keys:
        assert handlers.work(key, sender=lambda: plane)
    assert [key for key, state in push_rows().items() if state == "pending"] == [f"push:{bad}:0"]
    states = dict(Bundle.objects.values_list("audience", "state"))
    assert states.pop("agent:beta") == "built"
    assert set(states.values()) == {"sent"}


def test_a_crash_after_the_receipt_sends_twice_and_applies_once(
    plane: Plane, heating: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    services.compile_domain(heating.pk)

    def crash(_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(services, "bundles_sent", crash)
        plane.work()
    age(available_at=timezone.now())
    plane.settle()
    alpha = plane.audiences["agent:alpha"]
    assert alpha.refusals in ([], ["replay"])
    assert set(Bundle.objects.values_list("state", flat=True)) == {"applied"}


def test_a_crash_inside_a_compile_is_made_good(
    plane: Plane, heating: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    from adminapp.distribution import building

    store, calls = building._store, []

    def crash(*arguments: object) -> None:
        calls.append(arguments)
        if len(calls) == 2:
            raise MemoryError
        store(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(building, "_store", crash)
        patched.setattr(building, "TOGETHER", 1)
        with pytest.raises(MemoryError):
            services.compile_domain(heating.pk)
    assert Bundle.objects.count() == 1
    assert services.reconcile()["recompiled"] == 0, "somebody is asked already"
    OutboxRow.objects.filter(topic="compile").update(state="failed")
    assert services.reconcile()["recompiled"] == 1
    plane.settle()
    heating.refresh_from_db()
    del plane.audiences["agent:gamma"]  # serves another domain
    for audience in plane.audiences.values():
        assert audience.bundles["heating"].header.revision == heating.revision


def test_an_unknown_topic_ends_as_a_failure_that_is_seen(db: None) -> None:
    outbox.put(topic="surprise", key="surprise:1", payload={})
    handlers.work("surprise:1")
    assert "no handler" in OutboxRow.objects.get().error


def test_renewing_and_boundaries_raise_the_revision(plane: Plane, heating: Domain) -> None:
    from adminapp.distribution import upkeep
    from adminapp.policies.models import Policy

    plane.settle()
    assert services.renew_expiring() == 0
    assert services.apply_boundaries() == 0
    heating.refresh_from_db()
    before = heating.revision
    soon = timezone.now() + timedelta(days=5)
    assert upkeep.renew_expiring(soon) == 1
    plane.settle()
    Policy.objects.filter(name="AP_B").update(valid_until=timezone.now() + timedelta(seconds=60))
    assert upkeep.apply_boundaries(timezone.now() + timedelta(seconds=61)) == 1
    plane.settle()
    heating.refresh_from_db()
    assert heating.revision == before + 2
    assert plane.audiences["agent:alpha"].bundles["heating"].header.revision == heating.revision
