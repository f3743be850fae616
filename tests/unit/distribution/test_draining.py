"""How long an old epoch drains: somebody looks when its time is up, though nobody says anything."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from adminapp.distribution import services
from adminapp.identity.models import Domain, Principal
from adminapp.outbox.models import OutboxRow
from tests.support.audiences import Plane
from tests.support.kept_planes import PlaneKeeper
from tests.support.known_keys import held_tag_keys
from tests.unit.distribution.conftest import at_rest

LEAST, MOST = 500, 2_000


@pytest.fixture
def flights(plane: Plane, planes: PlaneKeeper) -> Domain:
    return at_rest(plane, planes, "flights")


def test_a_publisher_that_keeps_silent_holds_it_up_to_the_limit_and_no_longer(
    plane: Plane, flights: Domain, settings: Any
) -> None:
    settings.DRAIN_SECONDS, settings.DRAIN_LIMIT_SECONDS = LEAST, MOST
    plane.lease_all()
    silent = Principal.objects.get(domain=flights, name="jfk")
    plane.audiences[f"client:{silent.handle}"].deaf = True
    revocation = services.revoke_principal(
        actor=None, principal=held_tag_keys("UA"), reason="moved away"
    )
    plane.settle()
    revocation.refresh_from_db()
    rollout = revocation.rollout
    assert rollout is not None
    assert rollout.state == "draining"
    asked = OutboxRow.objects.filter(topic="advance", available_at__gt=timezone.now())
    waits = [(row.available_at - rollout.stage_started).total_seconds() for row in asked]
    for seconds in (LEAST, MOST):
        assert any(seconds <= wait < seconds + 60 for wait in waits), waits
