"""The environment: what it may say, and what production refuses."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import subprocess
import sys
import warnings
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
from asgiref.testing import ApplicationCommunicator
from django.core.exceptions import ImproperlyConfigured
from django.test import Client

from adminapp.config import env
from adminapp.config.asgi import application

ROOT = Path(__file__).resolve().parents[3]
KEY = "k" * 50


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in list(os.environ):
        if name.startswith("PORTCULLIS_"):
            monkeypatch.delenv(name)
    return monkeypatch


def test_production_is_the_default(environ: pytest.MonkeyPatch) -> None:
    assert env.environment() == "production"
    environ.setenv("PORTCULLIS_ENV", "staging")
    with pytest.raises(ImproperlyConfigured, match="development, test, production"):
        env.environment()


def test_production_has_no_default_secret(environ: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ImproperlyConfigured, match="PORTCULLIS_SECRET_KEY"):
        env.secret_key("production", tmp_path)
    assert list(tmp_path.iterdir()) == []
    environ.setenv("PORTCULLIS_SECRET_KEY", "short")
    with pytest.raises(ImproperlyConfigured, match="fewer than 32"):
        env.secret_key("production", tmp_path)
    environ.setenv("PORTCULLIS_SECRET_KEY", KEY)
    assert env.secret_key("production", tmp_path) == KEY


def test_the_secret_may_stand_in_a_file(environ: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "key"
    environ.setenv("PORTCULLIS_SECRET_KEY_FILE", str(file))
    with pytest.raises(ImproperlyConfigured, match="cannot be read"):
        env.secret_key("production", tmp_path)
    file.write_text(f"{KEY}\n", encoding="ascii")
    assert env.secret_key("production", tmp_path) == KEY


def test_elsewhere_a_random_secret_is_made_once(
    environ: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = env.secret_key("development", tmp_path)
    assert len(first) >= 64
    assert env.secret_key("test", tmp_path) == first
    (file,) = tmp_path.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("sqlite:////data/p.sqlite3", {"NAME": "/data/p.sqlite3"}),
        ("sqlite:///p.sqlite3", {"NAME": "/var/p.sqlite3"}),
        (
            "postgresql://me:p%40ss@db.local:5433/portcullis",
            {
                "ENGINE": "django.db.backends.postgresql",
                "USER": "me",
                "PASSWORD": "p@ss",
                "HOST": "db.local",
                "PORT": "5433",
                "NAME": "portcullis",
            },
        ),
    ],
)
def test_databases(url: str, expected: dict[str, Any]) -> None:
    found = env.database(url, Path("/var"))
    assert expected.items() <= found.items()


def test_sqlite_queues_writers() -> None:
    options = env.database("sqlite:///p.sqlite3", Path("/var"))["OPTIONS"]
    assert options["transaction_mode"] == "IMMEDIATE"
    assert options["timeout"] == 20
    assert "journal_mode=WAL" in options["init_command"]


@pytest.mark.parametrize(
    ("function", "value"), [(lambda v: env.database(v, Path()), "mysql://x"), (env.cache, "x://")]
)
def test_unknown_addresses(function: Any, value: str) -> None:
    with pytest.raises(ImproperlyConfigured):
        function(value)


def test_numbers_and_flags(environ: pytest.MonkeyPatch) -> None:
    assert env.integer("PORTCULLIS_X", 3) == 3
    environ.setenv("PORTCULLIS_X", "7")
    assert env.integer("PORTCULLIS_X", 3) == 7
    for wrong in ("-1", "many"):
        environ.setenv("PORTCULLIS_X", wrong)
        with pytest.raises(ImproperlyConfigured, match="PORTCULLIS_X"):
            env.integer("PORTCULLIS_X", 3)
    environ.setenv("PORTCULLIS_Y", "yes")
    assert env.flag("PORTCULLIS_Y")
    assert not env.flag("PORTCULLIS_Z")
    environ.setenv("PORTCULLIS_L", "a, b,")
    assert env.listing("PORTCULLIS_L") == ["a", "b"]


def test_the_embedded_transport_has_its_folders(tmp_path: Path) -> None:
    options = env.celery_transport("filesystem://", tmp_path / "celery")
    assert options["data_folder_in"] == options["data_folder_out"]
    assert options["polling_interval"] == 0.05
    assert Path(options["data_folder_in"]).is_dir()
    assert Path(options["control_folder"]).is_dir()
    redis = env.celery_transport("redis://localhost", tmp_path)
    assert redis["unacked_restore_throttle"] == 1


def test_servers_that_vanish_without_a_word_are_noticed_within_half_a_minute(
    tmp_path: Path,
) -> None:
    """On the sockets themselves: nobody there ever says anything."""
    told = env.database("postgresql://u:p@127.0.0.1:5432/x", tmp_path)["OPTIONS"]
    noticed = told["keepalives_idle"] + told["keepalives_interval"] * told["keepalives_count"]
    assert noticed <= 30
    assert told["tcp_user_timeout"] <= 30_000
    # Raises where the library does not know one of them.
    psycopg.conninfo.make_conninfo(host="127.0.0.1", **told)

    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        cached = env.cache(f"redis://127.0.0.1:{port}/1")["OPTIONS"]
        carried = env.celery_transport(f"redis://127.0.0.1:{port}/1", tmp_path)
        for options in (cached, {name: carried[name] for name in cached}):
            connection = redis.Connection(host="127.0.0.1", port=port, **options)
            with closing(connection._connect()) as opened:
                assert opened.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
                for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_USER_TIMEOUT"):
                    held = opened.getsockopt(socket.IPPROTO_TCP, getattr(socket, name))
                    assert 0 < held <= 30_000


def test_headers_of_every_answer(db: None) -> None:
    answer = Client().get("/health")
    assert answer.json() == {"status": "ok"}
    policy = answer["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer["X-Frame-Options"] == "DENY"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Referrer-Policy"] == "same-origin"
    assert answer["Cross-Origin-Opener-Policy"] == "same-origin"


def run(tmp_path: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")}
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env={**kept, "PORTCULLIS_VAR": str(tmp_path), **more},
        capture_output=True,
        text=True,
        check=False,
    )


def test_production_refuses_to_start_without_a_secret(tmp_path: Path) -> None:
    done = run(tmp_path, "check")
    assert done.returncode != 0
    assert "production needs PORTCULLIS_SECRET_KEY" in done.stderr


def test_production_passes_djangos_own_deployment_check(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        "check",
        "--deploy",
        "--fail-level",
        "WARNING",
        PORTCULLIS_SECRET_KEY="Zk3" + "x9-Lq" * 12,
        PORTCULLIS_ALLOWED_HOSTS="portcullis.example",
    )
    assert done.returncode == 0, done.stderr


async def asgi(path: str, **headers: str) -> tuple[int, bytes, dict[bytes, bytes]]:
    """A GET as an asynchronous server makes it, with warnings as errors."""
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        server = ApplicationCommunicator(application, scope)
        await server.send_input({"type": "http.request", "body": b"", "more_body": False})
        start, body = await server.receive_output(60), b""
        while True:
            part = await server.receive_output(60)
            body += part.get("body", b"")
            if not part.get("more_body"):
                await server.wait(60)
                return start["status"], body, dict(start["headers"])


def test_static_files_are_served_in_chunks_by_asynchronous_servers() -> None:
    path, host = "/static/api/docs.css", {"Host": "testserver"}
    status, body, headers = asyncio.run(asgi(path, **host))
    assert (status, body) == (200, (ROOT / "adminapp/api/static/api/docs.css").read_bytes())
    assert b"Access-Control-Allow-Origin" not in headers
    unchanged = {"If-Modified-Since": headers[b"Last-Modified"].decode()}
    status, body, _headers = asyncio.run(asgi(path, **host, **unchanged))
    assert (status, body) == (304, b"")
