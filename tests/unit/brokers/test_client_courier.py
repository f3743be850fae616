"""What becomes of publications under way when their publisher is closed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from brokers.client.courier import Courier, Road
from brokers.client.dispatch import plan_parcel
from brokers.client.errors import TimedOut
from brokers.client.homes import HomeWatch
from brokers.client.outbox import Outbox
from brokers.client.publisher import Handle
from brokers.client.vault import Vault
from policyengine.primitives.hpke import generate_sealing_key
from tests.support.data_plane import airport
from tests.support.pure_agents import client_policy

POLICY = client_policy(airport(), "p-airport")
FLIGHT: dict[str, Any] = {"carrier": "UA", "origin": "EWR", "delay": 130, "tail": "N14228"}


@pytest.fixture
def courier(tmp_path: Path) -> Iterator[Courier]:
    """One whose brokers are all away."""
    road = SimpleNamespace(
        policy=SimpleNamespace(of=lambda _domain: POLICY),
        watch=HomeWatch(),
        clock=SimpleNamespace(boot=time.monotonic),
        connected_to=lambda _overlay: False,
    )
    with closing(Outbox(tmp_path / "outbox.sqlite", Vault(generate_sealing_key()))) as outbox:
        yield Courier(cast(Road, road), outbox)


def test_whoever_lets_go_of_a_handle_as_it_is_told_hinders_nobody(courier: Courier) -> None:
    courier.start()
    told: list[BaseException | None] = []
    held: dict[str, Handle] = {}
    for number in range(3):
        name = str(number) * 32
        future = courier.carry(plan_parcel(POLICY, name, "Flight", FLIGHT), 1.0)
        held[name] = Handle(name, future, courier)

        def hear(done: Any, name: str = name) -> None:
            told.append(done.exception())
            del held[name]

        future.add_done_callback(hear)
        del future
    courier.stop(1.0)
    assert [type(error) for error in told] == [TimedOut] * 3
    assert held == {}
