"""Backup, restore and a standby of the authority: drilled with processes that are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from adminapp.core.authority import AuthorityClient, AuthorityUnavailable, RevisionRefused
from policyengine.bundles import contexts
from policyengine.primitives.canonical import dumps
from policyengine.primitives.rand import SYSTEM_RANDOM
from policyengine.primitives.signatures import verify
from tasks.authority.__main__ import main
from tasks.authority.fence import Fence
from tasks.authority.journal import Journal
from tasks.authority.journal import verify as verify_journal
from tasks.authority.standby import begin_epoch, copy, follow
from tasks.authority.store import StateError, create_state, load_state
from tests.unit.authority.test_authority import header

SECONDS = 90.0
"""For a process to start on a machine that has much else to do."""
KEY_ID = "encoding:heating:alpha:1"


class Pair:
    """Two authorities on one fence and one socket, as processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "authority.sock"
        self.client = AuthorityClient(self.socket, timeout=20.0)
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self, command: str, name: str, *more: str) -> subprocess.Popen[bytes]:
        places = [*self.places(name), "--socket", str(self.socket), *more]
        process = subprocess.Popen(
            [sys.executable, "-m", "tasks.authority", command, *places], stderr=subprocess.PIPE
        )
        self.running.append(process)
        return process

    def places(self, name: str) -> list[str]:
        return ["--state", str(self.folder / name), "--fence", str(self.folder / "fence")]

    def lease(self, number: int) -> bytes:
        """A lease's signature, asked for until somebody answers."""
        end = time.monotonic() + SECONDS
        payload = dumps({"audience": "agent:alpha", "number": number})
        while True:
            try:
                signature = self.client.sign("lease", contexts.LEASE, payload)
            except AuthorityUnavailable:
                assert time.monotonic() < end, "nobody answers"
                time.sleep(0.05)
            else:
                verify(self.client.anchors().lease, signature, contexts.LEASE, payload)
                return signature

    def bundle(self, revision: int) -> bytes:
        payload = dumps(header(revision=revision).to_json())
        return self.client.sign("policy", contexts.BUNDLE, payload)

    def close(self) -> None:
        self.client.close()
        for process in self.running:
            process.kill()
            process.wait()
            if process.stderr is not None:
                process.stderr.close()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    made.close()


def test_a_standby_takes_the_place_of_one_that_was_killed(pair: Pair) -> None:
    anchors = create_state(pair.folder / "first", SYSTEM_RANDOM).anchors()
    first = pair.start("run", "first")
    pair.lease(1)
    wrapped = pair.client.create_key(KEY_ID)
    pair.bundle(7)
    second = pair.start("standby", "second", "--follow", str(pair.folder / "first"))
    _wait((pair.folder / "second" / "signing.json").exists)
    assert second.poll() is None
    # Answered and not yet copied, perhaps: the standby reads on when the first one is gone.
    pair.bundle(8)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    pair.lease(2)
    assert pair.client.anchors() == anchors
    assert pair.client.unwrap(KEY_ID, wrapped)
    # What the first one signed binds the second.
    with pytest.raises(RevisionRefused):
        pair.bundle(7)
    pair.bundle(9)
    # The old one comes back: while the other serves, and after that too.
    returned = pair.start("run", "first")
    assert returned.wait(SECONDS) == 2
    assert returned.stderr is not None
    assert b"another authority serves" in returned.stderr.read()
    os.kill(second.pid, signal.SIGTERM)
    assert second.wait(SECONDS) == 0
    alone = pair.start("run", "first")
    assert alone.wait(SECONDS) == 2
    assert alone.stderr is not None
    assert b"another authority has served since (epoch 2, here 1)" in alone.stderr.read()
    told = [each["op"] for each in Journal(pair.folder / "second", now=time.time).entries(0, 99)]
    assert told.count("authority.serving") == 2
    # It may follow the one that served, and has then all that was answered.
    copy(pair.folder / "second", pair.folder / "first")
    assert verify_journal(pair.folder / "first" / "journal") == verify_journal(
        pair.folder / "second" / "journal"
    )


def _wait(done: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not done():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_the_newer_epoch_serves_and_the_older_does_not(tmp_path: Path) -> None:
    create_state(tmp_path / "one", SYSTEM_RANDOM)
    fence = Fence(tmp_path / "fence")
    assert fence.take()
    assert not Fence(tmp_path / "fence").take()
    one = Journal(tmp_path / "one", now=time.time)
    assert [begin_epoch(one, fence) for _ in range(2)] == [1, 2]
    copy(tmp_path / "one", tmp_path / "two")
    two = Journal(tmp_path / "two", now=time.time)
    assert begin_epoch(two, fence) == 3
    with pytest.raises(StateError, match="epoch 3, here 2"):
        begin_epoch(one, fence)
    # Killed between journal and fence: it may begin again.
    two.append({"op": "authority.serving", "outcome": "done", "epoch": 4})
    assert begin_epoch(two, fence) == 5
    fence.close()
    (tmp_path / "fence").write_text("nonsense")
    assert fence.take()
    with pytest.raises(StateError, match="holds no epoch"):
        begin_epoch(two, fence)
    fence.close()


def test_a_standby_copies_what_changes_and_nothing_that_is_another_history(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    create_state(first, SYSTEM_RANDOM)
    journal = Journal(first, now=time.time, part_bytes=600)
    for number in range(9):
        journal.append({"op": "unwrap", "key_id": f"tag:a:b:{number}", "outcome": "done"})
        (first / "journal" / f"tally-{number}").write_text("lease agent:alpha\n")
        (first / "journal" / f"tally-{number - 1}").unlink(missing_ok=True)
        copy(first, second)
        assert verify_journal(second / "journal") == journal.head
    assert sorted(path.name for path in (second / "journal").glob("tally-*")) == ["tally-8"]
    assert load_state(second).anchors() == load_state(first).anchors()
    assert {path.stat().st_mode & 0o777 for path in second.iterdir() if path.is_file()} == {0o600}
    Journal(second, now=time.time).append({"op": "unwrap", "outcome": "done"})
    with pytest.raises(StateError, match="move it away"):
        copy(first, second)
    journal.append({"op": "unwrap", "outcome": "refused", "reason": "longer than the other's"})
    with pytest.raises(StateError, match="move it away"):
        copy(first, second)


def test_who_follows_gives_up_when_asked_and_outlives_the_others_disk(tmp_path: Path) -> None:
    create_state(tmp_path / "first", SYSTEM_RANDOM)
    copy(tmp_path / "first", tmp_path / "second")
    held, fence = Fence(tmp_path / "fence"), Fence(tmp_path / "fence")
    assert held.take()
    asked = iter([False, False, True])
    folders = tmp_path / "gone", tmp_path / "second"
    assert follow(*folders, fence, lambda: next(asked), pause=0.01) is False
    held.close()
    assert follow(*folders, fence, lambda: False, pause=0.01) is True
    fence.close()


def command(*arguments: object) -> int:
    return main([str(each) for each in arguments])


def test_a_backup_brings_keys_and_journal_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state, file, secret = tmp_path / "state", tmp_path / "backup", tmp_path / "passphrase"
    anchors = create_state(state, SYSTEM_RANDOM).anchors()
    head = Journal(state, now=time.time).head
    secret.write_text("correct horse battery\n")
    secret.chmod(0o600)
    sealed = ("--passphrase-file", secret)
    assert command("backup", "--state", state, "--to", file, *sealed) == 0
    assert head.digest in capsys.readouterr().out
    assert file.stat().st_mode & 0o777 == 0o600
    assert (state / "kek").read_bytes() not in file.read_bytes()
    assert command("backup", "--state", state, "--to", file, *sealed) == 2
    again = tmp_path / "again"
    assert command("restore", "--state", again, "--from", file, *sealed) == 0
    assert load_state(again).anchors() == anchors
    told = Journal(again, now=time.time).entries(0, 99)
    assert [entry["op"] for entry in told] == ["journal.opened", "authority.restored"]
    assert told[1]["before"] == head.digest
    fence = Fence(again / "fence")
    assert fence.take()
    assert begin_epoch(Journal(again, now=time.time), fence) == 1
    fence.close()
    # Not over an authority that is there, and nothing from what is damaged or closed.
    assert command("restore", "--state", again, "--from", file, *sealed) == 2
    other = tmp_path / "other"
    damaged = tmp_path / "damaged"
    damaged.write_bytes(file.read_bytes()[:-1])
    assert command("restore", "--state", other, "--from", damaged, *sealed) == 2
    secret.write_text("another passphrase\n")
    assert command("restore", "--state", other, "--from", file, *sealed) == 2
    secret.write_text("short\n")
    assert command("restore", "--state", other, "--from", file, *sealed) == 2
    assert not other.exists()


def test_a_restored_one_may_serve_where_the_one_that_was_lost_did(tmp_path: Path) -> None:
    state, file, secret = tmp_path / "state", tmp_path / "backup", tmp_path / "passphrase"
    create_state(state, SYSTEM_RANDOM)
    secret.write_text("correct horse battery\n")
    secret.chmod(0o600)
    command("backup", "--state", state, "--to", file, "--passphrase-file", secret)
    fence = Fence(tmp_path / "fence")
    assert fence.take()
    assert [begin_epoch(Journal(state, now=time.time), fence) for _ in range(3)] == [1, 2, 3]
    options = ("--from", file, "--passphrase-file", secret, "--fence", fence.path)
    # Not while somebody serves.
    assert command("restore", "--state", tmp_path / "again", *options) == 2
    (tmp_path / "again").rmdir()
    fence.close()
    assert command("restore", "--state", tmp_path / "again", *options) == 0
    assert fence.take()
    assert begin_epoch(Journal(tmp_path / "again", now=time.time), fence) == 4
    with pytest.raises(StateError):
        begin_epoch(Journal(state, now=time.time), fence)
    fence.close()
