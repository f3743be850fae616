"""A PostgreSQL database with every migration applied: what `pg_dump` said of one is kept.

A module of its own: `migrated` is loaded before the plug-in that this one needs.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tests.support.migrated import KEPT, alone, digest, done, migrate
from tests.support.services import PostgreSQL, postgres_programs


def migrated_postgresql(server: PostgreSQL, database: str) -> str:
    """Make a database with every migration applied; returns its address."""
    url, programs = server.create(database), postgres_programs()
    command = ["--dbname", url, "--no-password"]
    KEPT.mkdir(parents=True, exist_ok=True)
    with alone():
        path = KEPT / f"postgresql-{digest()}.sql"
        if path.exists():
            quiet = ["-q", "-v", "ON_ERROR_STOP=1", "-o", os.devnull]
            done([str(programs / "psql"), *command, *quiet, "-f", str(path)])
            return url
        with tempfile.TemporaryDirectory(prefix="portcullis-migrated-") as name:
            migrate(url, Path(name))
        for older in KEPT.glob("postgresql-*"):
            older.unlink()
        partial = path.with_suffix(".partial")
        done([str(programs / "pg_dump"), *command, "--no-owner", "-f", str(partial)])
        partial.replace(path)
    return url
