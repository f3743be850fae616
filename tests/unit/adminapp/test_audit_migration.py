"""The chain of earlier releases becomes the tree, and a tree a chain again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BEFORE = """
import django, hashlib, sys
django.setup()
from datetime import UTC, datetime
from django.core.management import call_command
from django.db import connection
from adminapp.core import canonical

FIELDS = ("sequence", "actor_name", "action", "domain_name", "object_type", "object_id",
          "object_name", "before", "after", "previous_hash")


def digest(row):
    body = {name: row[name] for name in FIELDS}
    body["at"] = row["at"].astimezone(UTC).isoformat(timespec="microseconds")
    return hashlib.sha256(canonical.dumps(body).encode()).hexdigest()


def chained(Entry, count):
    previous = ""
    for number in range(1, count + 1):
        row = dict(sequence=number, at=datetime(2026, 1, 2, 3, 4, 5, number, tzinfo=UTC),
                   actor_name="mona" if number % 3 else "system", action="thing.changed",
                   domain_name="flights", object_type="thing", object_id=str(number),
                   object_name=f"thing {number}", before={"n": number, "f": 1e20}, after=None,
                   previous_hash=previous)
        row["hash"] = previous = digest(row)
        Entry.objects.create(**row)
    return previous


def state_of(name):
    from django.db.migrations.executor import MigrationExecutor
    return MigrationExecutor(connection).loader.project_state(("audit", name)).apps


call_command("migrate", "audit", "0001", verbosity=0)
old = state_of("0001_initial")
end = chained(old.get_model("audit", "Entry"), 600)
old.get_model("audit", "ChainHead").objects.create(pk=1, sequence=600, hash=end)
"""
THERE_AND_BACK = (
    BEFORE
    + """
call_command("migrate", verbosity=0)
from adminapp.audit import services, verification
from adminapp.audit.erasure import erase_person
from adminapp.audit.models import Entry, TreeNode
report = verification.verify(key=None)
assert (report.size, report.problems, report.unchecked) == (600, [], []), report
assert TreeNode.objects.count() == 2
entry = Entry.objects.get(sequence=7)
assert (entry.actor_name, entry.object_name, entry.before["n"]) == ("mona", "thing 7", 7)
for person in ("p-1", "p-2"):
    services.write(actor=None, action="a.b", object_type="a", object_id=1, object_name=person,
                   after={"who": person}, person=person)
erase_person(pseudonym="p-2")
assert verification.verify(key=None).problems == []
call_command("migrate", "audit", "0001", verbosity=0)
previous = ""
for row in old.get_model("audit", "Entry").objects.order_by("sequence").values():
    assert row["previous_hash"] == previous
    assert row["hash"] == digest(row), row
    previous = row["hash"]
assert (row["sequence"], row["object_name"], row["after"]) == (602, "[erased]", None)
assert old.get_model("audit", "Entry").objects.get(sequence=601).after == {"who": "p-1"}
assert old.get_model("audit", "ChainHead").objects.get().hash == previous
call_command("migrate", verbosity=0)
assert verification.verify(key=None).problems == []
print("there and back")
"""
)
BROKEN = (
    BEFORE
    + """
old.get_model("audit", "Entry").objects.filter(sequence=300).update(object_id="x")
try:
    call_command("migrate", verbosity=0)
except RuntimeError as error:
    print(error)
"""
)


def run(script: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "adminapp.config.settings",
            "PORTCULLIS_ENV": "test",
            "PORTCULLIS_VAR": str(folder),
            "PORTCULLIS_DATABASE_URL": f"sqlite:///{folder / 'm.sqlite3'}",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_and_back(tmp_path: Path) -> None:
    assert run(THERE_AND_BACK, tmp_path) == "there and back\n"


def test_a_broken_chain_stays_for_whoever_looks_into_it(tmp_path: Path) -> None:
    assert "the audit is broken at entry 300" in run(BROKEN, tmp_path)
