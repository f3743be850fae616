"""Organisations of the samples on a control plane that is pumped by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from adminapp.changes.loading import load as load_files
from adminapp.identity import services as identity
from adminapp.identity.models import Domain, Principal
from tests.support.audiences import Plane, live_authority, plane
from tests.support.kept_planes import PlaneKeeper, planes

__all__ = ["live_authority", "plane", "planes"]

SAMPLES = Path(__file__).parents[3] / "adminapp" / "samples"
AGENTS = {"alpha": "a", "beta": "a", "gamma": "b"}


def register_agents(on: Plane) -> None:
    overlays = {
        name: identity.create_overlay(actor=None, name=name, title=f"Overlay {name}")
        for name in ("a", "b")
    }
    for name, overlay in AGENTS.items():
        keys = on.agent(name)
        identity.register_agent(
            actor=None,
            name=name,
            overlay=overlays[overlay],
            sealing_key=keys.sealing.public,
            verify_key=keys.signing.public,
        )


def register_clients(on: Plane, domain: str) -> None:
    for principal in Principal.objects.filter(domain__name=domain):
        on.client(principal)


def patient(domain: Domain) -> Domain:
    """Leases that outlast a slow machine; whose ends here is set by hand."""
    Domain.objects.filter(pk=domain.pk).update(lease_seconds=86_400)
    domain.refresh_from_db()
    return domain


def load(on: Plane, name: str) -> Domain:
    register_agents(on)
    load_files([SAMPLES / f"{name}.yaml"])
    register_clients(on, name)
    return Domain.objects.get(name=name)


def at_rest(on: Plane, planes: PlaneKeeper, name: str) -> Domain:
    """A sample with keys for everybody, which hold what was compiled for them."""

    def make() -> None:
        load(on, name)
        on.settle()

    planes.bring_up(name, on, make)
    return Domain.objects.get(name=name)


def loaded(on: Plane, planes: PlaneKeeper, name: str) -> Domain:
    """A sample with keys for everybody, nothing compiled yet."""
    planes.bring_up(f"{name}, loaded", on, lambda: load(on, name))
    return Domain.objects.get(name=name)


@pytest.fixture
def heating(plane: Plane, planes: PlaneKeeper) -> Domain:
    """JingFang with keys for everybody, nothing compiled yet."""
    return loaded(plane, planes, "heating")


@pytest.fixture
def flights(plane: Plane, planes: PlaneKeeper) -> Domain:
    """The flights with keys for everybody, nothing compiled yet."""
    return loaded(plane, planes, "flights")


@pytest.fixture
def compiled_heating(plane: Plane, planes: PlaneKeeper) -> Domain:
    """JingFang with keys for everybody, which hold what was compiled for them."""
    return at_rest(plane, planes, "heating")


@pytest.fixture
def compiled_flights(plane: Plane, planes: PlaneKeeper) -> Domain:
    """The flights with keys for everybody, which hold what was compiled for them."""
    return at_rest(plane, planes, "flights")
