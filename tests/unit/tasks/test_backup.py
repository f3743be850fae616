"""Backup and restore: everything comes back, and nothing half-done."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db.migrations.recorder import MigrationRecorder

from adminapp.audit import keys, verification, witness
from adminapp.audit.models import Checkpoint, Entry
from adminapp.catalog import services as catalog
from adminapp.identity.models import Domain, Principal, User
from adminapp.outbox.models import OutboxRow
from policyengine.primitives import passphrase as stretching
from tasks.backup import archive, rows
from tests.support.control_plane import World

SECRET = "a long walk home at night"


@pytest.fixture(autouse=True)
def _quick_and_apart(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.AUDIT_WITNESS = tmp_path / "witness" / "checkpoints.jsonl"
    monkeypatch.setattr(stretching, "COST", 2**8)


@pytest.fixture
def backup(world: World, tmp_path: Path) -> Path:
    path = tmp_path / "plane.backup"
    assert "not in it: the trusted authority's state folder and the audit key" in run(
        "backup", str(path)
    )
    assert path.stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.glob(".*"))
    return path


@pytest.fixture
def passphrase(tmp_path: Path) -> str:
    file = tmp_path / "passphrase"
    file.touch(mode=0o600)
    file.write_text(SECRET + "\n")
    return str(file)


def run(*arguments: str) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


def everything(but: tuple[str, ...] = ("audit.treehead",)) -> dict[str, list[str]]:
    """All rows as the archive has them; of the audit only what a restore does not add to."""
    return {
        rows.label(model): list(rows.lines(model))
        for model in rows.tables()
        if rows.label(model) not in but
    }


def assert_restored(before: dict[str, list[str]], size: int) -> None:
    after = everything()
    entries = after["audit.entry"]
    after["audit.entry"], added = entries[:size], entries[size:]
    assert after == before
    assert len(added) == 1
    assert Entry.objects.get(sequence=size + 1).action == "backup.restored"
    assert verification.verify(key=None).problems == []


def test_everything_comes_back(world: World, backup: Path) -> None:
    before, size = everything(), Entry.objects.count()
    catalog.create_event_type(actor=None, domain=world.flights, name="Later")
    Principal.objects.filter(name="United").delete()
    OutboxRow.objects.all().delete()
    assert everything() != before
    text = run("restore", str(backup), "--force")
    assert f"the audit of {size + 1} entries is whole" in text
    assert_restored(before, size)
    # Keys go on where they were: nothing collides with what was restored.
    catalog.create_event_type(actor=None, domain=world.flights, name="Later")


def test_an_encrypted_backup(world: World, tmp_path: Path, passphrase: str, settings: Any) -> None:
    path, before, size = tmp_path / "sealed", everything(), Entry.objects.count()
    text = run("backup", str(path), "--passphrase-file", passphrase)
    assert text.endswith("not in it: the trusted authority's state folder\n")
    for secret in (b"United", b"flights", settings.AUDIT_KEY.encode()):
        assert secret not in path.read_bytes()
    run("restore", str(path), "--passphrase-file", passphrase, "--force")
    assert_restored(before, size)
    key = tmp_path / "audit-key"
    run("restore", str(path), "--passphrase-file", passphrase, "--audit-key-to", str(key))
    assert key.read_text() == settings.AUDIT_KEY
    assert key.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("size", [0, 1, 2**20 - 1, 2**20, 2**20 + 1, 3 * 2**20])
def test_chunks_of_any_size(size: int, tmp_path: Path) -> None:
    path, data = tmp_path / "sealed", bytes(range(256)) * (size // 256 + 1)
    with archive.writing(path, SECRET) as out:
        out._put("part", data[:size])
        out._tar.close()
    assert list(archive._members(path, SECRET)) == [("part", data[:size])]


def test_an_encrypted_backup_that_was_touched(tmp_path: Path, passphrase: str, db: None) -> None:
    path = tmp_path / "sealed"
    run("backup", str(path), "--passphrase-file", passphrase)
    whole = path.read_bytes()
    before = everything()
    for broken in (
        whole[:-1],
        whole + b"x",
        whole[: len(whole) // 2],
        whole[:50],
        whole[:30] + bytes([whole[30] ^ 1]) + whole[31:],
        whole[:200] + bytes([whole[200] ^ 1]) + whole[201:],
        whole[:-1] + bytes([whole[-1] ^ 1]),
    ):
        path.write_bytes(broken)
        with pytest.raises(CommandError, match="nothing was changed"):
            run("restore", str(path), "--passphrase-file", passphrase, "--force")
    path.write_bytes(whole)
    Path(passphrase).write_text("another passphrase\n")
    with pytest.raises(CommandError, match="nothing was changed"):
        run("restore", str(path), "--passphrase-file", passphrase, "--force")
    assert everything() == before


def test_a_plain_backup_that_was_touched(world: World, backup: Path) -> None:
    before, whole = everything(), backup.read_bytes()
    at = whole.index(b"identity.principal/") + 600  # inside the part
    for broken in (
        b"",
        b"no archive at all" * 100,
        whole[: len(whole) // 2],
        whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :],
    ):
        backup.write_bytes(broken)
        with pytest.raises(CommandError, match="nothing was changed"):
            run("restore", str(backup), "--force")
    assert everything() == before


def rewritten(backup: Path, change: Any) -> None:
    """The archive anew, with another manifest and right sums."""
    kept = list(archive.parts(backup, None))
    manifest = archive.check(backup, None, lambda _done, _total: None)
    manifest.pop("parts")
    backup.unlink()
    with archive.writing(backup, None) as out:
        for name, data in change(manifest, kept):
            out.add(name, data)
        out.finish(manifest)


def test_a_backup_that_does_not_fit_is_refused(world: World, backup: Path) -> None:
    before, whole = everything(), backup.read_bytes()

    def other_schema(manifest: Any, kept: Any) -> Any:
        manifest["migrations"].append("audit.9999_future")
        return kept

    def other_key(manifest: Any, kept: Any) -> Any:
        manifest["audit"]["key_id"] = "00000000"
        return kept

    def other_tables(manifest: Any, kept: Any) -> Any:
        manifest["tables"].pop("identity.domain")
        return kept

    def fewer_rows(_manifest: Any, kept: Any) -> Any:
        return [(name, data) for name, data in kept if "identity.homeagent" not in name]

    def dangling(manifest: Any, kept: Any) -> Any:
        manifest["tables"]["identity.overlay"]["rows"] = 0
        return [(name, data) for name, data in kept if "identity.overlay" not in name]

    for change, message in (
        (other_schema, "another schema.*audit.9999_future"),
        (other_key, "another audit key"),
        (other_tables, "other tables"),
        (fewer_rows, "lacks rows of `identity.homeagent`"),
        (dangling, "do not fit together"),
    ):
        rewritten(backup, change)
        with pytest.raises(CommandError, match=f"nothing was changed: .*{message}"):
            run("restore", str(backup), "--force")
        assert everything() == before, change
        backup.write_bytes(whole)


def test_only_an_empty_database_is_restored_to_without_force(world: World, backup: Path) -> None:
    with pytest.raises(CommandError, match="not empty; --force"):
        run("restore", str(backup))
    assert "is whole" in run("restore", str(backup), "--check")
    for path in (backup.with_name("none"), backup.parent):
        with pytest.raises(CommandError, match="nothing was changed"):
            run("restore", str(path))
    with pytest.raises(CommandError, match="there already"):
        run("backup", str(backup))


def test_after_a_loss_revisions_go_on_beyond_what_agents_may_hold(
    world: World, backup: Path
) -> None:
    at_backup = dict(Domain.objects.values_list("name", "revision"))
    run("restore", str(backup), "--force", "--after-loss", "5000")
    now = dict(Domain.objects.values_list("name", "revision"))
    assert now == {name: revision + 5001 for name, revision in at_backup.items()}
    compiled = OutboxRow.objects.filter(topic="compile", key__endswith=f":{now['flights']}")
    assert compiled.exists()
    with pytest.raises(CommandError, match="goes up"):
        run("restore", str(backup), "--after-loss", "-1")


def test_a_witness_of_a_future_that_is_no_more_is_kept_aside(world: World, backup: Path) -> None:
    assert not Checkpoint.objects.exists()
    witness.append("a checkpoint of later")
    run("restore", str(backup), "--force")
    assert list(witness.read()) == []
    (aside,) = witness.path().parent.iterdir()
    assert json.loads(aside.read_text()) == {"checkpoint": "a checkpoint of later"}


def test_a_broken_audit_is_restored_and_said(world: World, tmp_path: Path) -> None:
    Entry.objects.filter(sequence=3).update(object_id="x")
    path = tmp_path / "broken"
    run("backup", str(path))
    with pytest.raises(CommandError, match="restored, and the audit in it is broken"):
        run("restore", str(path), "--force")


def test_passphrases(tmp_path: Path, db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "p"
    file.touch(mode=0o600)
    file.write_text("short\n")
    with pytest.raises(CommandError, match="at least 12"):
        run("backup", str(tmp_path / "b"), "--passphrase-file", str(file))
    file.write_text(SECRET)
    file.chmod(0o644)
    with pytest.raises(CommandError, match="readable by others"):
        run("backup", str(tmp_path / "b"), "--passphrase-file", str(file))
    typed = iter([SECRET, SECRET + "x"])
    monkeypatch.setattr("tasks.backup.passphrases.getpass", lambda _prompt: next(typed))
    with pytest.raises(CommandError, match="differ"):
        run("backup", str(tmp_path / "b"), "--encrypt")
    assert not (tmp_path / "b").exists()


def test_every_kind_of_field_is_known(world: World) -> None:
    """A field that changed itself when it is saved would not come back as it was."""
    for model in rows.tables():
        for field in model._meta.concrete_fields:
            assert not getattr(field, "auto_now", False), field
            assert not getattr(field, "auto_now_add", False), field
    assert MigrationRecorder.Migration not in rows.tables()
    assert User in rows.tables()
    assert keys.key_id()
