"""How long an old epoch drains: somebody looks when its time is up, though nobody says anything."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from adminapp.distribution import rollouts, services
from adminapp.distribution.models import Bundle, Recipient, Revocation, Rollout
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


def ago(seconds: float) -> datetime:
    return timezone.now() - timedelta(seconds=seconds)


def test_an_agent_without_a_lease_has_its_time_before_an_epoch_is_retired(
    plane: Plane, compiled_flights: Domain, settings: Any
) -> None:
    settings.DRAIN_SECONDS, settings.DRAIN_LIMIT_SECONDS = LEAST, MOST
    plane.lease_all()
    rollout = revoke(plane, "UA").rollout
    assert rollout is not None
    mine = Rollout.objects.filter(pk=rollout.pk)
    Recipient.objects.update(leased_since=ago(MOST))
    alpha = Recipient.objects.filter(audience="agent:alpha", domain=compiled_flights)

    def look() -> Rollout:
        return rollouts.advance(rollout.pk)

    # Its lease ended, and the time of the drain too: as after an outage of our own.
    mine.update(stage_started=ago(MOST + 1))
    alpha.update(leased_until=ago(1))
    begun = timezone.now()
    assert (look().state, begun <= look().kept_since <= timezone.now()) == ("draining", True)
    asked = OutboxRow.objects.filter(topic="advance", available_at__gt=begun)
    waits = [(row.available_at - begun).total_seconds() for row in asked]
    for seconds in range(LEAST, MOST + 1, LEAST):
        assert any(seconds <= wait < seconds + 60 for wait in waits), waits
    # It is back: what waited for it is under way.
    alpha.update(leased_until=ago(-30), leased_since=ago(LEAST - 60))
    assert look().state == "draining"
    alpha.update(leased_since=ago(LEAST))
    assert look().state != "draining"


def test_an_agent_that_stays_away_keeps_an_epoch_up_to_the_limit(
    plane: Plane, compiled_flights: Domain, settings: Any
) -> None:
    settings.DRAIN_SECONDS, settings.DRAIN_LIMIT_SECONDS = LEAST, MOST
    plane.lease_all()
    rollout = revoke(plane, "UA").rollout
    assert rollout is not None
    mine = Rollout.objects.filter(pk=rollout.pk)
    mine.update(stage_started=ago(LEAST + 1))
    Recipient.objects.filter(audience="agent:alpha").update(leased_until=ago(1))
    assert rollouts.advance(rollout.pk).state == "draining"
    mine.update(kept_since=ago(MOST - 60))
    assert rollouts.advance(rollout.pk).state == "draining"
    mine.update(kept_since=ago(MOST))
    assert rollouts.advance(rollout.pk).state != "draining"


def test_since_when_an_agent_has_had_leases_without_a_gap(
    plane: Plane, compiled_flights: Domain
) -> None:
    alpha = Recipient.objects.filter(audience="agent:alpha", domain=compiled_flights)

    def since() -> datetime:
        plane.lease_all()
        found = alpha.get().leased_since
        assert found is not None
        return found

    begun = timezone.now()
    first = since()
    assert begun <= first
    assert since() == first
    alpha.update(leased_until=ago(1))
    assert since() > first


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
