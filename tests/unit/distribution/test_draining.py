"""How long an old epoch drains: somebody looks when its time is up, though nobody says anything."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from adminapp.distribution import services
from adminapp.distribution.models import Bundle, Revocation
from adminapp.identity.models import Domain, Principal
from adminapp.outbox.models import OutboxRow
from tests.support.audiences import Plane
from tests.support.known_keys import held_tag_keys

LEAST, MOST = 500, 2_000


def silence(plane: Plane, name: str) -> str:
    """From now on somebody takes and says nothing; returns the address."""
    address = f"client:{Principal.objects.get(name=name).handle}"
    plane.audiences[address].deaf = True
    return address


def revoke(plane: Plane, name: str) -> Revocation:
    """The end of one that could publish, as far as it comes by itself."""
    made = services.revoke_principal(actor=None, principal=held_tag_keys(name), reason="moved away")
    plane.settle()
    made.refresh_from_db()
    return made


def test_a_publisher_that_keeps_silent_holds_it_up_to_the_limit_and_no_longer(
    plane: Plane, compiled_flights: Domain, settings: Any
) -> None:
    settings.DRAIN_SECONDS, settings.DRAIN_LIMIT_SECONDS = LEAST, MOST
    plane.lease_all()
    silence(plane, "jfk")
    rollout = revoke(plane, "UA").rollout
    assert rollout is not None
    assert rollout.state == "draining"
    asked = OutboxRow.objects.filter(topic="advance", available_at__gt=timezone.now())
    waits = [(row.available_at - rollout.stage_started).total_seconds() for row in asked]
    for seconds in (LEAST, MOST):
        assert any(seconds <= wait < seconds + 60 for wait in waits), waits


def test_a_subscriber_that_never_took_its_bundle_holds_up_nobody(
    plane: Plane, flights: Domain
) -> None:
    address = silence(plane, "DL")
    plane.settle()
    # Of a moment long before the rollout, as clocks may differ a little.
    waits = Bundle.objects.filter(audience=address)
    waits.update(built_at=timezone.now() - timedelta(minutes=1))
    plane.lease_all()
    assert revoke(plane, "UA").state == "complete"
    assert {row.state for row in waits} == {"sent"}
