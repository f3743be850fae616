"""Migrations run both ways on a database of their own, and match the models."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.migrated import migrated

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = """
import django
django.setup()
from django.core.management import call_command
from django.db import connection
from tests.support.migrated import undo
call_command("makemigrations", check=True, dry_run=True, verbosity=0)
full = set(connection.introspection.table_names())
undo("api", "webhooks", "distribution", "privacy", "policies", "agreements", "trustgroups",
     "roles", "catalog", "enrolment", "identity", "outbox", "audit")
left = set(connection.introspection.table_names())
prefixes = ("api_", "webhooks_",
            "distribution_", "privacy_", "policies_", "agreements_", "trustgroups_",
            "roles_", "catalog_", "enrolment_", "identity_", "outbox_", "audit_")
assert not [name for name in left if name.startswith(prefixes)], left
call_command("migrate", verbosity=0)
assert set(connection.introspection.table_names()) == full
print("both ways")
"""


def test_both_ways(tmp_path: Path) -> None:
    migrated(tmp_path / "m.sqlite3")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=ROOT,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "adminapp.config.settings",
            "PORTCULLIS_ENV": "test",
            "PORTCULLIS_VAR": str(tmp_path),
            "PORTCULLIS_DATABASE_URL": f"sqlite:///{tmp_path / 'm.sqlite3'}",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "both ways\n"
