"""The control plane's own tests, on a real PostgreSQL instead of the embedded SQLite.

A choice of them; any other runs there as well with `PORTCULLIS_DATABASE_URL`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.migrated_postgresql import migrated_postgresql
from tests.support.processes import Running
from tests.support.services import PostgreSQL

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

AREAS = ("change_sets", "quotas", "audit_erasure")


def test_the_control_plane_keeps_its_promises(postgresql: PostgreSQL, tmp_path: Path) -> None:
    files = [f"tests/unit/adminapp/test_{area}.py" for area in AREAS]
    tests = Running(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files],
        log=tmp_path / "units.log",
        environment={
            "PORTCULLIS_DATABASE_URL": migrated_postgresql(postgresql, "units"),
            "PORTCULLIS_TEST_TEMPLATE": "units",
        },
    )
    try:
        status = tests.process.wait(600)
    finally:
        tests.stop()
    assert status == 0, tests.text()
