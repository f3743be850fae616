"""Connections to Redis that carry nothing any more, or are reset, while a worker is at work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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


def _silent(network: TcpProxy) -> None:
    """Neither an end nor a reset ever comes; whoever waits for an answer waits in vain."""
    network.half_open()
    network.heal()


def _reset(network: TcpProxy) -> None:
    """Whoever listens is told so, and a worker listens for nothing while its hands are full."""
    assert network.reset() > 1


@pytest.mark.parametrize("trouble", [_silent, _reset])
def test_a_worker_takes_up_work_again(
    tmp_path: Path,
    server: RedisServer,
    network: TcpProxy,
    trouble: Callable[[TcpProxy], None],
) -> None:
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
        trouble(network)
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
