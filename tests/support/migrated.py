"""A database with every migration applied: made once, kept in `var/tests`, and copied.

To apply them takes longer than most tests. That they apply, and both ways, has tests of its own.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from tests.support.processes import REPOSITORY

KEPT = REPOSITORY / "var" / "tests"


def migrated(path: Path) -> Path:
    """Put a migrated SQLite database in a place that has none; returns the place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(_template(), path)
    return path


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None,
) -> Iterator[None]:
    """The tests' own database begins as a copy too: of the kept one where it is the embedded one,
    on PostgreSQL of the database that `PORTCULLIS_TEST_TEMPLATE` names.

    Django's own command still runs on it, and applies whatever the copy should lack.
    """
    if connection.vendor != "sqlite":
        connection.settings_dict["TEST"]["TEMPLATE"] = os.environ.get("PORTCULLIS_TEST_TEMPLATE")
        yield
        return
    creation = connection.creation
    create = creation._create_test_db
    with closing(_template_in_memory(creation._get_test_db_name())) as kept:
        assert kept.execute("SELECT count(*) FROM django_migrations").fetchone() != (0,)
        with patch.object(creation, "_create_test_db", lambda *_args, **_more: create(0, True)):
            yield


def _template_in_memory(name: str) -> sqlite3.Connection:
    """Fill the shared database of this name; it lives for as long as anybody holds it open."""
    shared = sqlite3.connect(name, uri=True, check_same_thread=False)
    with closing(sqlite3.connect(_template())) as source:
        source.backup(shared)
    return shared


def _template() -> Path:
    KEPT.mkdir(parents=True, exist_ok=True)
    with alone():
        path = KEPT / f"migrated-{digest()}.sqlite3"
        if not path.exists():
            for older in KEPT.glob("migrated-*"):
                older.unlink()
            _make(path)
        return path


def _make(path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="portcullis-migrated-") as name:
        fresh = Path(name) / "portcullis.sqlite3"
        migrate(f"sqlite:///{fresh}", Path(name))
        partial = path.with_suffix(".partial")
        shutil.copyfile(fresh, partial)
        partial.replace(path)


def digest() -> str:
    """Names what the database is made from."""
    found = hashlib.blake2b(digest_size=8)
    sources = [*REPOSITORY.glob("adminapp/*/migrations/*.py"), REPOSITORY / "requirements.txt"]
    for source in sorted(sources):
        found.update(source.name.encode() + b"\0" + source.read_bytes())
    return found.hexdigest()


def migrate(url: str, var: Path) -> None:
    """Apply every migration to a database."""
    environment = {
        **os.environ,
        "PORTCULLIS_ENV": "test",
        "PORTCULLIS_VAR": str(var),
        "PORTCULLIS_DATABASE_URL": url,
    }
    done([sys.executable, "manage.py", "migrate", "--no-input", "-v0"], environment)


def undo(*apps: str) -> None:
    """Take back every migration of some apps, in one plan: to work out what a model looked like
    takes longer than the change itself.
    """
    MigrationExecutor(connection).migrate([(app, None) for app in apps])


def done(command: list[str], environment: dict[str, str] | None = None) -> None:
    """Run a command to its end."""
    ended = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr


@contextmanager
def alone() -> Iterator[None]:
    with (KEPT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
