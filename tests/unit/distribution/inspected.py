"""The heating company with an inspector, whose appointment brings a role and that another one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from adminapp.identity.models import Domain, Principal
from adminapp.policies import services as policies
from adminapp.roles import services as roles
from tests.support.audiences import Plane
from tests.support.kept_planes import PlaneKeeper
from tests.support.live_agents import LiveSite
from tests.unit.distribution.conftest import load, patient

READING = {"consumer": "X-104211", "value": 21.5, "unit": "celsius", "hour": 7}
STATISTICS = {"period": "2026-11", "average": 20.0, "homes": 5}


def _bring_up(plane: Plane) -> None:
    heating = load(plane, "heating")
    roles.create_role(
        actor=None, domain=heating, name="inspector", rules=[{"appointments": ["inspection"]}]
    )
    roles.create_role(
        actor=None, domain=heating, name="auditor", rules=[{"prerequisites": ["inspector"]}]
    )
    policies.create_policy(
        actor=None,
        domain=heating,
        name="audit",
        action="subscribe",
        event_type="Statistics",
        expression='subject.role == "auditor"',
    )
    inspector = Principal.objects.get(name="X-104212")
    roles.appoint(actor=None, principal=inspector, name="inspection")
    plane.settle()


def bring_up(plane: Plane, planes: PlaneKeeper) -> Domain:
    """The heating company, where an inspector is appointed and may read statistics; no lease ends
    by itself.
    """
    planes.bring_up("inspected", plane, lambda: _bring_up(plane))
    return patient(Domain.objects.get(name="heating"))


@pytest.fixture
def heating(plane: Plane, planes: PlaneKeeper) -> Domain:
    return bring_up(plane, planes)


@pytest.fixture
def site(plane: Plane, heating: Domain, tmp_path: Path) -> Iterator[LiveSite]:
    """Its agents, on a broker in memory."""
    made = LiveSite(plane, "heating", {"alpha": "a", "beta": "a"}, tmp_path)
    made.run()
    for name in ("X-104211", "X-104212"):
        made.subscribe(name, "Telemetry")
    made.run()
    yield made
    made.close()


def publish(site: LiveSite) -> dict[str, str]:
    """A reading of two homes and a statistic; returns the events by what they are."""
    return {
        "first": site.publish("meter-gateway", "WaterTemperature", READING),
        "second": site.publish(
            "meter-gateway", "WaterTemperature", {**READING, "consumer": "X-104212"}
        ),
        "statistics": site.publish("meter-gateway", "Statistics", STATISTICS),
    }
