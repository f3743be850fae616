"""Redis falls silent and nobody is told: connections stay, and carry nothing any more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.plane import Plane
from tests.support.ports import wait_until
from tests.support.services import RedisServer
from tests.support.tcp_proxy import TcpProxy

pytestmark = [pytest.mark.redis, pytest.mark.slow]

_SECONDS = 180.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    (tmp_path / "redis").mkdir()
    made = RedisServer(tmp_path / "redis")
    made.start()
    yield made
    made.stop()


@pytest.fixture
def network(server: RedisServer) -> Iterator[TcpProxy]:
    made = TcpProxy(server.server.port, seed="unheard")
    yield made
    made.close()


def test_a_worker_goes_on_though_its_connections_carry_nothing_any_more(
    tmp_path: Path, server: RedisServer, network: TcpProxy
) -> None:
    """Neither an end nor a reset ever comes; whoever waits for an answer waits in vain."""
    through = f"redis://:{server.server.password}@127.0.0.1:{network.port}"
    plane = Plane(
        tmp_path / "plane",
        {
            "PORTCULLIS_CELERY_BROKER_URL": f"{through}/1",
            "PORTCULLIS_CACHE_URL": f"{through}/2",
        },
    )
    plane.migrate()
    worker = plane.worker("worker")
    relay = None
    try:
        worker.wait_for_text("ready", seconds=_SECONDS)
        relay = plane.relay()
        plane.call("put", "slow-work", 1)
        wait_until(lambda: len(plane.effects()) == 1, seconds=_SECONDS, what="the work to begin")
        # Who holds a message has more to say over a dead connection than who waits for one.
        network.half_open()
        network.heal()
        plane.open_gate()
        wait_until(
            lambda: plane.row("slow-work:0")["state"] == "done", seconds=_SECONDS, what="its end"
        )
        plane.call("put", "slow-more", 1)
        wait_until(
            lambda: plane.row("slow-more:0")["attempts"] == 1, seconds=_SECONDS, what="more work"
        )
        assert worker.process.poll() is None
    finally:
        if relay is not None:
            relay.stop()
        worker.stop()
