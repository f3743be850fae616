"""A backup moves a control plane from SQLite to PostgreSQL and back, and loses nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.migrated_postgresql import migrated_postgresql
from tests.support.plane import Plane
from tests.support.services import PostgreSQL

pytestmark = [pytest.mark.postgres, pytest.mark.slow]


def made(folder: Path, key: Path, **settings: str) -> Plane:
    return Plane(folder, {"PORTCULLIS_AUDIT_KEY_FILE": str(key), **settings})


def test_there_and_back(postgresql: PostgreSQL, tmp_path: Path) -> None:
    key = tmp_path / "audit-key"
    key.touch(mode=0o600)
    key.write_text("of all control planes of this test, the same one")
    here = made(tmp_path / "here", key)
    here.migrate()
    before: dict[str, Any] = here.call("change")
    here.manage("backup", str(tmp_path / "first"))

    url = migrated_postgresql(postgresql, "restored")
    there = made(tmp_path / "there", key, PORTCULLIS_DATABASE_URL=url)
    assert "is whole" in there.manage("restore", str(tmp_path / "first"))
    assert_same(there.call("state"), before, restores=1)
    # Sequences go on after what was restored.
    there.call("change-many", "3")
    changed = there.call("state")
    assert changed["problems"] == []
    tamper_and_see(there, url)
    there.manage("backup", str(tmp_path / "second"))

    back = made(tmp_path / "back", key)
    back.migrate()
    assert "is whole" in back.manage("restore", str(tmp_path / "second"))
    assert_same(back.call("state"), changed, restores=1)


def assert_same(after: dict[str, Any], before: dict[str, Any], *, restores: int) -> None:
    added = after["audit"][len(before["audit"]) :]
    assert added == ["backup.restored"] * restores
    for name in ("revision", "outbox", "domain", "expression", "versions", "problems"):
        assert after[name] == before[name], name
    assert after["audit"][: len(before["audit"])] == before["audit"]


def tamper_and_see(plane: Plane, url: str) -> None:
    """Change an entry behind the control plane's back, and put it right again."""
    change = "UPDATE audit_entry SET action = %s WHERE sequence = 2 RETURNING action"
    read = "SELECT action FROM audit_entry WHERE sequence = 2"
    with psycopg.connect(url, autocommit=True) as connection:
        (was,) = connection.execute(read).fetchone() or ("",)
        connection.execute(change, ["x.y"])
        assert plane.call("state")["problems"] == ["entry 2 was changed"]
        connection.execute(change, [was])
    assert plane.call("state")["problems"] == []
