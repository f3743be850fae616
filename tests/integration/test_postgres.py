"""The control plane on a real PostgreSQL, by configuration alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import psycopg
import pytest

from tests.support.migrated_postgresql import migrated_postgresql
from tests.support.plane import COMMANDS, Plane
from tests.support.ports import wait_until
from tests.support.processes import Running
from tests.support.services import PostgreSQL

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

APPS = ("distribution", "privacy", "policies", "trustgroups", "roles", "catalog", "identity",
        "outbox", "audit")  # fmt: skip


@pytest.fixture(scope="module")
def plane(postgresql: PostgreSQL, tmp_path_factory: pytest.TempPathFactory) -> Plane:
    url = migrated_postgresql(postgresql, "plane")
    return Plane(tmp_path_factory.mktemp("plane"), {"PORTCULLIS_DATABASE_URL": url})


@pytest.fixture(scope="module")
def changed(plane: Plane) -> dict[str, object]:
    """A domain with a policy, made by the services."""
    answer: dict[str, object] = plane.call("change")
    return answer


def side_by_side(plane: Plane, name: str, *commands: list[str]) -> None:
    """Run commands at the same time."""
    running = [
        plane.start(f"{name}-{number}", "-m", COMMANDS, *words)
        for number, words in enumerate(commands)
    ]
    try:
        for process in running:
            assert process.process.wait(120) == 0, process.text()
    finally:
        for process in running:
            process.stop()


def test_migrations_go_forward_and_back(postgresql: PostgreSQL, tmp_path: Path) -> None:
    url = migrated_postgresql(postgresql, "migrations")
    plane = Plane(tmp_path, {"PORTCULLIS_DATABASE_URL": url})
    with psycopg.connect(url) as connection:
        made = tables(connection)
        assert {"outbox_outboxrow", "policies_policy", "distribution_bundle"} <= made
    plane.call("migrate-back", *APPS)
    with psycopg.connect(url) as connection:
        left = tables(connection)
    assert not {name for name in left if name.split("_")[0] in APPS}
    plane.manage("migrate", "--no-input")
    with psycopg.connect(url) as connection:
        assert tables(connection) == made


def tables(connection: psycopg.Connection[tuple[str, ...]]) -> set[str]:
    rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    return {row[0] for row in rows}


def test_models_and_migrations_say_the_same(plane: Plane) -> None:
    assert "No changes detected" in plane.manage("makemigrations", "--check", "--dry-run")


def test_it_really_is_postgresql(plane: Plane) -> None:
    assert plane.call("engine") == {"vendor": "postgresql", "name": "plane"}
    assert not list(plane.folder.glob("*.sqlite3"))


def test_a_change_leaves_revision_audit_and_outbox(changed: dict[str, object]) -> None:
    revision, domain = changed["revision"], changed["domain"]
    assert isinstance(revision, int)
    assert revision >= 4
    assert changed["outbox"] == [
        [f"compile:{domain}:{number}", {"domain": domain, "revision": number}, "pending"]
        for number in range(1, revision + 1)
    ]
    actions = changed["audit"]
    assert isinstance(actions, list)
    assert actions[-2:] == ["policy.created", "policy.updated"]
    assert {"domain.created", "event-type.created"} <= set(actions)
    assert changed["problems"] == []
    assert changed["expression"] == 'event.zone == "south"'
    assert changed["versions"] == 2


def test_a_stale_change_is_refused_whole(changed: dict[str, object]) -> None:
    assert changed["conflict"] is True


@pytest.mark.usefixtures("changed")
def test_a_change_that_breaks_down_leaves_nothing(plane: Plane) -> None:
    assert plane.call("broken") == {"changed_inside": True, "kept": False, "same": True}


@pytest.mark.usefixtures("changed")
def test_changes_at_the_same_time_get_numbers_of_their_own(plane: Plane) -> None:
    before = plane.call("state")
    each = 8
    side_by_side(plane, "change", *[["change-many", str(each)]] * 3)
    after = plane.call("state")
    assert after["revision"] == before["revision"] + 3 * each
    keys = [key for key, _, _ in after["outbox"]]
    assert len(keys) == len(set(keys)) == after["revision"]
    assert len(after["audit"]) == len(before["audit"]) + 3 * each
    assert after["problems"] == []


def test_each_row_is_claimed_by_exactly_one(plane: Plane) -> None:
    put, start = plane.call("put", "race", 600), plane.folder / "start"
    claimers = [
        plane.start(f"claim-{number}", "-m", COMMANDS, "claim-all", "race", "3", str(start))
        for number in range(4)
    ]
    try:
        wait_until(
            lambda: len(list(plane.folder.glob("start.*"))) == len(claimers),
            seconds=180,
            what="everybody to be ready",
        )
        start.touch()
        for process in claimers:
            assert process.process.wait(120) == 0, process.text()
    finally:
        for process in claimers:
            process.stop()
    answers = [json.loads(process.text()) for process in claimers]
    assert sorted(key for answer in answers for key in answer) == sorted(put)
    assert sum(bool(answer) for answer in answers) >= 2
    assert plane.call("row", "race:0")["attempts"] == 1


def test_rows_that_are_locked_are_skipped_and_not_waited_for(plane: Plane) -> None:
    put = plane.call("put", "locked", 20)
    release = plane.folder / "release"
    holder: Running = Running(
        [sys.executable, "-m", COMMANDS, "hold", "locked", "5", str(release)],
        log=plane.folder / "holder.log",
        environment=plane.environment,
    )
    try:
        wait_until((plane.folder / "release.held").exists, seconds=180, what="the lock")
        # Would wait for ever behind the lock, if it waited.
        assert plane.call("claim-all", "locked", 4) == put[5:]
        assert holder.process.poll() is None
        release.touch()
        assert holder.process.wait(120) == 0
    finally:
        holder.stop()
    assert plane.call("claim-all", "locked", 4) == put[:5]
