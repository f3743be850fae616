"""Private PostgreSQL and Redis servers for tests, on loopback and in temporary folders.

Both refuse to be anything but ordinary programs here: PostgreSQL will not run as root,
so a root's tests run it as the user of Debian's package.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.ports import answers, free_port, wait_until
from tests.support.processes import Running, children_of, wait_gone

_POSTGRES_HOMES = Path("/usr/lib/postgresql")


class ServiceMissingError(Exception):
    """A program that the tests need is not installed; the message says how to get it."""


@dataclass(frozen=True, slots=True)
class PostgreSQL:
    """A running server.

    Args:
        port: where it listens on 127.0.0.1.
        user: its superuser.
        password: of that user.
    """

    port: int
    user: str
    password: str

    def url(self, database: str) -> str:
        """Give a database's address as PORTCULLIS_DATABASE_URL takes it."""
        return f"postgresql://{self.user}:{self.password}@127.0.0.1:{self.port}/{database}"

    def create(self, database: str) -> str:
        """Create an empty database and give its address."""
        import psycopg
        from psycopg import sql

        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(database)))
        return self.url(database)

    def ready(self) -> bool:
        """Tell whether the server lets anybody in; its port answers a little earlier."""
        import psycopg

        try:
            psycopg.connect(self.url("postgres")).close()
        except psycopg.OperationalError:
            return False
        return True


@dataclass(frozen=True, slots=True)
class Redis:
    """A running server; it keeps an append-only file, as production does.

    Args:
        port: where it listens on 127.0.0.1.
        password: what a client must say.
    """

    port: int
    password: str

    def url(self, database: int = 0) -> str:
        """Give the address of one of the numbered databases."""
        return f"redis://:{self.password}@127.0.0.1:{self.port}/{database}"


class PostgresServer:
    """A PostgreSQL server that can be killed and started again at the same address.

    Args:
        folder: for all of its state; it becomes that of the server's user.
        durable: whether a commit waits for the disk.
    """

    def __init__(self, folder: Path, *, durable: bool = False) -> None:
        self.folder = folder
        self._fsync = "on" if durable else "off"
        self.server = PostgreSQL(free_port(), "portcullis", secrets.token_urlsafe(16))
        self._programs = postgres_programs()
        self._as_user: list[str] = []
        self._process: Running | None = None

    @property
    def log(self) -> Path:
        """What the server said."""
        return self.folder / "server.log"

    def make(self) -> None:
        """Make the empty cluster, once."""
        secret, data = self.folder / "password", self.folder / "data"
        secret.write_text(self.server.password)
        self._as_user = _ordinary_user(self.folder, secret)
        subprocess.run(
            [*self._as_user, str(self._programs / "initdb"), "-D", str(data),
             "-U", self.server.user, "-E", "UTF8", "--locale=C.UTF-8",
             "--auth=scram-sha-256", f"--pwfile={secret}", "--no-sync"],
            check=True, capture_output=True, cwd=self.folder,
        )  # fmt: skip

    def start(self) -> None:
        """Start it, and wait until it lets somebody in."""
        self._process = Running(
            [*self._as_user, str(self._programs / "postgres"), "-D", str(self.folder / "data"),
             "-p", str(self.server.port), "-k", str(self.folder),
             "-c", "listen_addresses=127.0.0.1", "-c", f"fsync={self._fsync}"],
            log=self.log, folder=self.folder,
        )  # fmt: skip
        _wait_for(self._process, self.server.ready, "PostgreSQL")

    def kill(self) -> None:
        """kill -9 of all of its processes; without fsync this loses nothing as the system lives."""
        assert self._process is not None
        backends = children_of(self._process.pid)
        for pid in (self._process.pid, *backends):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.process.wait()
        for pid in backends:
            wait_gone(pid, seconds=120)

    def stop(self) -> None:
        """Stop it without waiting for clients that have forgotten to leave."""
        if self._process is not None:
            self._process.stop(gently=signal.SIGINT)


class RedisServer:
    """A Redis server that can be killed and started again at the same address.

    Args:
        folder: for its settings, its log and its append-only file.
    """

    def __init__(self, folder: Path) -> None:
        self._program = shutil.which("redis-server")
        if self._program is None:
            raise ServiceMissingError("redis-server is missing: apt-get install redis-server")
        self.folder = folder
        self.server = Redis(free_port(), secrets.token_urlsafe(16))
        self._process: Running | None = None

    def start(self) -> None:
        """Start it, and wait until it listens."""
        settings = self.folder / "redis.conf"
        settings.touch(mode=0o600)
        settings.write_text(
            f"bind 127.0.0.1\nport {self.server.port}\nrequirepass {self.server.password}\n"
            f'dir {self.folder}\ndaemonize no\nappendonly yes\nsave ""\n'
        )
        self._process = Running(
            [str(self._program), str(settings)], log=self.folder / "server.log", folder=self.folder
        )
        _wait_for(self._process, lambda: answers(self.server.port), "Redis")

    def kill(self) -> None:
        """kill -9."""
        assert self._process is not None
        self._process.process.kill()
        self._process.process.wait()

    def stop(self) -> None:
        """Stop it."""
        if self._process is not None:
            self._process.stop()


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    """A PostgreSQL server for the whole session; create a database of your own in it."""
    with running_postgresql() as server:
        yield server


@contextmanager
def running_postgresql(*, durable: bool = False) -> Iterator[PostgreSQL]:
    """A PostgreSQL server of one's own, stopped and removed at the end.

    Where it is not `durable` a commit does not wait for the disk.
    """
    # Not pytest's folder: the server's user must be able to enter it.
    with tempfile.TemporaryDirectory(prefix="portcullis-postgres-") as name:
        made = PostgresServer(Path(name), durable=durable)
        made.make()
        try:
            made.start()
            yield made.server
        finally:
            made.stop()


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    """A Redis server for the whole session; use a numbered database of your own."""
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@contextmanager
def running_redis(folder: Path) -> Iterator[Redis]:
    """A Redis server of one's own that keeps its state in a folder, stopped at the end."""
    made = RedisServer(folder)
    try:
        made.start()
        yield made.server
    finally:
        made.stop()


def postgres_programs() -> Path:
    """Where PostgreSQL's programs are.

    Raises:
        ServiceMissingError: they are not installed.
    """
    found = sorted(_POSTGRES_HOMES.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if not found:
        raise ServiceMissingError("PostgreSQL is missing: apt-get install postgresql")
    return found[-1].parent


def _ordinary_user(*owned: Path) -> list[str]:
    """Give what to put before a command that must not run as root, and hand paths over.

    `setpriv` becomes the command itself, so the process keeps the id that it is stopped by.
    """
    if os.geteuid() != 0:
        return []
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    user = names.get("postgres") or names["nobody"]
    for path in owned:
        os.chown(path, user.pw_uid, user.pw_gid)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


def _wait_for(process: Running, ready: Callable[[], bool], name: str) -> None:
    wait_until(lambda: process.process.poll() is not None or ready(), seconds=120, what=name)
    if process.process.poll() is not None:
        raise AssertionError(f"{name} did not start:\n{process.text()}")
