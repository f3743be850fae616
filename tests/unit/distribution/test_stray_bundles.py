"""A bundle that an agent refused and nobody here built is told to the people who watch."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from adminapp.audit.models import Entry
from adminapp.distribution.models import Bundle
from adminapp.identity.models import Domain
from tests.support.audiences import Plane


def _entries() -> list[Entry]:
    return list(Entry.objects.filter(action="bundle.refused").order_by("sequence"))


def _refuse(plane: Plane, reason: str, *, digest: str = "", number: int = 0) -> None:
    alpha = plane.audiences["agent:alpha"]
    plane.receive(alpha.ack("heating", "bundle", number, digest, "rejected", reason))


def test_a_refused_stranger_s_bundle_stands_in_the_audit(
    plane: Plane, compiled_heating: Domain
) -> None:
    states = set(Bundle.objects.values_list("pk", "state"))
    _refuse(plane, "signature")
    (entry,) = _entries()
    assert (entry.domain_name, entry.object_type, entry.object_id) == (
        "heating",
        "agent",
        "agent:alpha",
    )
    assert entry.after == {"reason": "signature", "revision": 0}
    # It says nothing about the bundles that are ours.
    assert set(Bundle.objects.values_list("pk", "state")) == states


def test_a_flood_makes_one_entry_a_minute_for_each_reason(
    plane: Plane, compiled_heating: Domain
) -> None:
    for _ in range(5):
        _refuse(plane, "signature")
        _refuse(plane, "expired", digest="0" * 64, number=99)
    assert [entry.after["reason"] for entry in _entries()] == ["signature", "expired"]
    Entry.objects.filter(action="bundle.refused").update(at=timezone.now() - timedelta(minutes=2))
    _refuse(plane, "signature")
    assert len(_entries()) == 3


def test_a_refusal_of_our_own_bundle_is_no_stray(plane: Plane, heating: Domain) -> None:
    plane.work()
    plane.queues.clear()
    heating.refresh_from_db()
    bundle = Bundle.objects.get(audience="agent:alpha", revision=heating.revision)
    _refuse(plane, "malformed", digest=bundle.digest, number=bundle.revision)
    assert _entries() == []
    bundle.refresh_from_db()
    assert bundle.state == Bundle.State.REJECTED
