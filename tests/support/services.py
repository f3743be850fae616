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
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.ports import answers, free_port, wait_until
from tests.support.processes import Running

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


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    """A PostgreSQL server for the whole session; create a database of your own in it."""
    with running_postgresql() as server:
        yield server


@contextmanager
def running_postgresql() -> Iterator[PostgreSQL]:
    """A PostgreSQL server of one's own, stopped and removed at the end."""
    programs = _postgres_programs()
    # Not pytest's folder: the server's user must be able to enter it.
    with tempfile.TemporaryDirectory(prefix="portcullis-postgres-") as name:
        folder = Path(name)
        user, password = "portcullis", secrets.token_urlsafe(16)
        secret = folder / "password"
        secret.write_text(password)
        as_user = _ordinary_user(folder, secret)
        data = folder / "data"
        subprocess.run(
            [*as_user, str(programs / "initdb"), "-D", str(data), "-U", user, "-E", "UTF8",
             "--locale=C.UTF-8", "--auth=scram-sha-256", f"--pwfile={secret}", "--no-sync"],
            check=True, capture_output=True, cwd=folder,
        )  # fmt: skip
        port = free_port()
        process = Running(
            [*as_user, str(programs / "postgres"), "-D", str(data), "-p", str(port),
             "-k", str(folder), "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"],
            log=folder / "server.log", folder=folder,
        )  # fmt: skip
        try:
            server = PostgreSQL(port, user, password)
            _wait_for(process, server.ready, "PostgreSQL")
            yield server
        finally:
            # Without waiting for clients that have forgotten to leave.
            process.stop(gently=signal.SIGINT)


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    """A Redis server for the whole session; use a numbered database of your own."""
    program = shutil.which("redis-server")
    if program is None:
        raise ServiceMissingError("redis-server is missing: apt-get install redis-server")
    folder = tmp_path_factory.mktemp("redis")
    port, password = free_port(), secrets.token_urlsafe(16)
    settings = folder / "redis.conf"
    settings.touch(mode=0o600)
    settings.write_text(
        f"bind 127.0.0.1\nport {port}\nrequirepass {password}\ndir {folder}\n"
        "daemonize no\nappendonly yes\nsave \"\"\n"
    )  # fmt: skip
    process = Running([program, str(settings)], log=folder / "server.log", folder=folder)
    try:
        _wait_for(process, lambda: answers(port), "Redis")
        yield Redis(port, password)
    finally:
        process.stop()


def _postgres_programs() -> Path:
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
    wait_until(lambda: process.process.poll() is not None or ready(), seconds=30, what=name)
    if process.process.poll() is not None:
        raise AssertionError(f"{name} did not start:\n{process.text()}")
