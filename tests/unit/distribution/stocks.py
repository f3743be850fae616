"""The news service of paper 001, with quotes that no broker may read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from adminapp.changes.loading import load as load_files
from adminapp.identity.models import Domain, Principal
from policyengine.blind import RoutedBlind
from policyengine.bundles.model import AgentContent, ClientContent
from tests.support.audiences import Plane
from tests.support.blind_reading import publish, receive
from tests.support.kept_planes import PlaneKeeper
from tests.support.markets import QUOTE, priced
from tests.unit.distribution.conftest import (
    SAMPLES,
    at_rest,
    patient,
    register_agents,
    register_clients,
)

CUSTOMERS = ("small-investor", "pension-fund")
EXCHANGES = ("nasdaq", "nyse")


@pytest.fixture
def market(plane: Plane, tmp_path: Path) -> Domain:
    """The news service, where prices are for premium customers alone."""
    register_agents(plane)
    load_files([priced(tmp_path)])
    register_clients(plane, "stocks")
    plane.settle()
    return Domain.objects.get(name="stocks")


@pytest.fixture
def stocks(plane: Plane, planes: PlaneKeeper) -> Domain:
    """The news service of paper 001: quotes that no broker may read."""
    found = patient(at_rest(plane, planes, "stocks"))
    plane.lease_all()
    return found


def handle(name: str) -> str:
    return Principal.objects.get(name=name).handle


def client(plane: Plane, name: str) -> ClientContent:
    found = plane.audiences[f"client:{handle(name)}"].content("stocks")
    assert isinstance(found, ClientContent)
    return found


def agent(plane: Plane, name: str) -> AgentContent:
    return plane.audiences[f"agent:{name}"].agent("stocks")


def home(plane: Plane, name: str) -> AgentContent:
    return agent(plane, Principal.objects.get(name=name).homes.get().agent.name)


def quoted(plane: Plane, publisher: str = "nasdaq", **changes: Any) -> RoutedBlind:
    return publish(client(plane, publisher), home(plane, publisher), "Quote", {**QUOTE, **changes})


def read(plane: Plane, name: str, event: RoutedBlind) -> dict[str, Any] | None:
    return receive(client(plane, name), home(plane, name), event, QUOTE)


def epochs(content: AgentContent | ClientContent) -> dict[int, str]:
    return {each.epoch: each.state for each in content.blind}


@pytest.fixture
def ordered(plane: Plane, planes: PlaneKeeper, settings: Any, tmp_path: Path) -> Domain:
    """The same with prices under an order-preserving function."""
    text = (SAMPLES / "stocks.yaml").read_text()
    price = "name: price, "
    assert text.count(price) == 1
    hidden = f"{price}protection: {{kind: order-preserving, sealed: true}}, "
    (tmp_path / "stocks.yaml").write_text(text.replace(price, hidden))

    def make() -> None:
        register_agents(plane)
        load_files([tmp_path / "stocks.yaml"])
        register_clients(plane, "stocks")
        plane.settle()

    planes.bring_up(f"stocks, ordered, {settings.ORDER_SCHEME}", plane, make)
    found = patient(Domain.objects.get(name="stocks"))
    plane.lease_all()
    return found
