"""Revocations of before are held against logs as they were, and their checks stay."""

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
from datetime import date
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

call_command("migrate", "distribution", "0011", verbosity=0)
state = MigrationExecutor(connection)._create_project_state(with_applied_migrations=True).apps
domains = state.get_model("identity", "Domain").objects
logged = domains.create(name="logged", title="L", decision_days=30, lease_seconds=30)
silent = domains.create(name="silent", title="S")
people = state.get_model("identity", "Principal").objects
revocations = state.get_model("distribution", "Revocation").objects
for domain in (logged, silent):
    person = people.create(domain=domain, name="P", kind="person", handle=f"p-{domain.name}")
    for kind in ("principal", "appointment"):
        revocations.create(
            uid=f"{kind}-{domain.name}", domain=domain, principal=person, kind=kind, reason="r")
checks = state.get_model("distribution", "RevocationCheck").objects
checks.create(revocation=revocations.get(uid="principal-logged"), day=date(2026, 1, 2), after=3)

call_command("migrate", "distribution", verbosity=0)
from adminapp.distribution import evidence
from adminapp.distribution.models import Revocation, RevocationCheck, RevokedRight
rights = RevokedRight.objects.order_by("domain__name")
assert [(r.revocation.uid, r.names, r.state) for r in rights] == [
    ("principal-logged", ["p-logged"], "watched"), ("principal-silent", ["p-silent"], "unlogged"),
], list(rights)
assert (rights[0].until - rights[0].revocation.created).total_seconds() == 30
held = RevocationCheck.objects.get()
assert (held.domain.name, held.after) == ("logged", 3)
said = {row.uid: evidence.check(row).verdict for row in Revocation.objects.all()}
assert said == {
    "principal-logged": "broken", "appointment-logged": "unknown",
    "principal-silent": "off", "appointment-silent": "unknown"}, said

RevocationCheck.objects.create(
    revocation=held.revocation, domain=rights[1].domain, day=date(2026, 1, 2), after=1)
call_command("migrate", "distribution", "0011", verbosity=0)
assert [(each.day, each.after) for each in checks.all()] == [(date(2026, 1, 2), 3)]
print("kept")
"""


def test_what_was_counted_before_is_kept(tmp_path: Path) -> None:
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
    assert done.stdout == "kept\n"
