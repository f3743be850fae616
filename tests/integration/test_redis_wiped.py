"""Redis loses all that it has, while no worker runs: the outbox is the truth, and all is done."""

from __future__ import annotations

import json
import secrets
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.support.plane import Plane
from tests.support.ports import answers, free_port, wait_until
from tests.support.processes import Running
from tests.support.services import ServiceMissingError

pytestmark = [pytest.mark.redis, pytest.mark.slow]

_SECONDS = 180.0
_QUEUES = ("urgent", "normal", "slow")


class MortalRedis:
    """A server that may be killed, and lose its files.

    Args:
        folder: for all of it.
    """

    def __init__(self, folder: Path) -> None:
        program = shutil.which("redis-server")
        if program is None:
            raise ServiceMissingError("redis-server is missing: apt-get install redis-server")
        self._program, self._folder = program, folder
        self._port, self._password = free_port(), secrets.token_urlsafe(16)
        folder.mkdir()
        self.start()

    @property
    def url(self) -> str:
        return f"redis://:{self._password}@127.0.0.1:{self._port}/1"

    def start(self) -> None:
        settings = self._folder.with_suffix(".conf")
        settings.touch(mode=0o600)
        settings.write_text(
            f"bind 127.0.0.1\nport {self._port}\nrequirepass {self._password}\n"
            f'dir {self._folder}\nappendonly yes\nsave ""\n'
        )
        log = self._folder.with_suffix(".log")
        self.running = Running([self._program, str(settings)], log=log, folder=self._folder)
        wait_until(lambda: answers(self._port), seconds=_SECONDS, what="Redis")

    def lose_files(self) -> None:
        """kill -9, and nothing is left of what it kept."""
        self.running.process.kill()
        self.running.process.wait()
        shutil.rmtree(self._folder)
        self._folder.mkdir()

    def handed_out(self) -> int:
        """How many rows of the outbox stand in its queues."""
        with redis.Redis.from_url(self.url) as client:
            held = [one for name in _QUEUES for one in client.lrange(name, 0, -1)]  # type: ignore[union-attr]
        return sum(json.loads(one)["headers"]["task"] == "portcullis.work" for one in held)

    def flush(self) -> None:
        with redis.Redis.from_url(self.url) as client:
            client.flushall()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MortalRedis]:
    made = MortalRedis(tmp_path / "redis")
    yield made
    made.running.stop()


def test_what_redis_lost_is_handed_out_again_and_done_once(
    server: MortalRedis, tmp_path: Path
) -> None:
    plane = Plane(tmp_path / "plane", {"PORTCULLIS_CELERY_BROKER_URL": server.url})
    plane.migrate()
    plane.open_gate()
    relay = plane.relay()
    try:
        plane.call("put", "slow-work", 3)
        wait_until(lambda: server.handed_out() == 3, seconds=_SECONDS, what="the first rows")
        server.flush()
        assert server.handed_out() == 0
        plane.call("put", "slow-work", 6)  # three more
        wait_until(lambda: server.handed_out() >= 3, seconds=_SECONDS, what="the other rows")
        server.lose_files()
        server.start()
        assert server.handed_out() == 0
        worker = plane.worker("worker")
        try:
            rows = [f"slow-work:{number}" for number in range(6)]
            wait_until(
                lambda: all(plane.row(row)["state"] == "done" for row in rows),
                seconds=_SECONDS, what="all rows to be done",
            )  # fmt: skip
        finally:
            worker.stop()
        assert relay.process.poll() is None
    finally:
        relay.stop()
    assert [plane.row(row)["attempts"] for row in rows] == [1] * 6
    done = Counter((what, which) for what, which, _ in plane.effects())
    assert done == Counter(
        (what, f"slow-work-{number}") for what in ("begin", "end") for number in range(6)
    )
