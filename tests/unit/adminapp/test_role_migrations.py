"""Roles and appointments of before keep what they say when they get parameters, and back."""

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
from datetime import timedelta
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

call_command("migrate", "roles", "0001", verbosity=0)
state = MigrationExecutor(connection)._create_project_state(with_applied_migrations=True).apps
domain = state.get_model("identity", "Domain").objects.create(name="d", title="D")
person = state.get_model("identity", "Principal").objects.create(
    domain=domain, name="P", kind="person", handle="p-1")
role = state.get_model("roles", "Role").objects.create(domain=domain, name="r")
state.get_model("roles", "RoleRule").objects.create(
    role=role, prerequisites=["q"], appointments=["a"], constraints="env.hour > 9")
state.get_model("roles", "RoleRule").objects.create(role=role, appointments=["b"])
now = timezone.now()
given = state.get_model("roles", "Appointment").objects
given.create(principal=person, name="a", starts=now)
given.create(principal=person, name="a", starts=now)
given.create(principal=person, name="a", starts=now - timedelta(days=2), ends=now)

call_command("migrate", "roles", verbosity=0)
from adminapp.roles.models import Appointment, RoleRule
first, second = RoleRule.objects.order_by("pk")
assert first.constraints == ["env.hour > 9"], first.constraints
assert first.membership == ["q", "a", "env.hour > 9"], first.membership
assert (second.constraints, second.membership) == ([], ["b"])
found = [(e.atom, e.number, e.closed is None) for e in Appointment.objects.order_by("pk")]
assert found == [("a", 1, True), ("a", 2, True), ("a", 1, False)], found

call_command("migrate", "roles", "0001", verbosity=0)
texts = state.get_model("roles", "RoleRule").objects.order_by("pk")
assert [each.constraints for each in texts] == ["(env.hour > 9)", ""]
print("kept")
"""


def test_rules_and_appointments_are_kept(tmp_path: Path) -> None:
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
