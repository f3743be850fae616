"""What is kept on disk: crash-safe, private, and of whom it says."""

from __future__ import annotations

import errno
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.adapters.brokers_file import ConfigurationError
from brokers.adapters.files import (
    BundleFolder,
    FolderLock,
    Keys,
    StateError,
    StateFile,
    SubscriptionFile,
    write_atomically,
)
from brokers.adapters.rootfile import load_anchors
from brokers.adapters.seen import SeenLog
from brokers.data.subscriptions import Subscription
from brokers.ports import SeenEntry
from policyengine.bundles import TrustedState
from tests.support.data_plane import Authority


def test_keys_are_private_and_made_once(tmp_path: Path) -> None:
    path = tmp_path / "state" / "keys.json"
    keys = Keys.create(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert Keys.create(path).public() == keys.public()
    assert keys.sealing.private.hex() not in repr(keys)
    path.chmod(0o640)
    with pytest.raises(ConfigurationError, match="0600"):
        Keys.load(path)
    path.chmod(0o600)
    path.write_text('{"sealing": "x"}')
    with pytest.raises(ConfigurationError, match="not a key file"):
        Keys.load(path)


def test_a_write_that_dies_half_way_leaves_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")
    (tmp_path / "file.new").write_bytes(b"ne")  # killed before the rename
    assert path.read_bytes() == b"old"
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_bundles_have_names_of_domains_only(tmp_path: Path) -> None:
    folder = BundleFolder(tmp_path / "bundles")
    folder.save("heating", b"1")
    assert (folder.load("heating"), folder.load("flights")) == (b"1", None)
    assert folder.domains() == ("heating",)
    for name in ("../x", "A", "", "a/b"):
        with pytest.raises(ValueError, match="not a domain"):
            folder.save(name, b"")


def test_a_state_of_somebody_else_is_refused(tmp_path: Path) -> None:
    StateFile(tmp_path / "t", "agent:alpha").save(TrustedState("agent:alpha", notices={"d": 3}))
    assert StateFile(tmp_path / "t", "agent:alpha").load().notices == {"d": 3}
    with pytest.raises(StateError, match="belongs to"):
        StateFile(tmp_path / "t", "agent:beta").load()


def test_subscriptions_come_back(tmp_path: Path) -> None:
    one = Subscription("flights", "p-ua", "s", "Flight", 'a == "x"')
    file = SubscriptionFile(tmp_path / "s.json")
    assert file.load() == ()
    file.save([one])
    assert file.load() == (one,)
    (tmp_path / "s.json").write_text('[{"domain": 1}]')
    with pytest.raises(StateError, match="damaged"):
        file.load()


def test_anchors(tmp_path: Path) -> None:
    anchors = Authority().anchors()
    path = tmp_path / "anchors.json"
    path.write_text(json.dumps(anchors.to_json()))
    assert load_anchors(path) == anchors
    path.write_text("{}")
    with pytest.raises(ConfigurationError):
        load_anchors(path)
    with pytest.raises(ConfigurationError):
        load_anchors(tmp_path / "nothing")


def test_a_folder_is_for_one(tmp_path: Path) -> None:
    first = FolderLock(tmp_path)
    with pytest.raises(StateError, match="in use"):
        FolderLock(tmp_path)
    first.release()
    FolderLock(tmp_path).release()


def test_what_was_seen_survives_and_leaves_by_age(tmp_path: Path) -> None:
    log = SeenLog(tmp_path / "seen", seconds=1000)
    log.record([SeenEntry(b"old", 0), SeenEntry(b"new", 900)], now=900)
    log.close()
    log = SeenLog(tmp_path / "seen", seconds=1000)
    assert b"old" in log
    assert b"new" in log
    for number in range(100):
        log.record([SeenEntry(b"%d" % number, 1500)], now=1500)
    assert b"old" not in log
    assert b"new" in log
    log.close()


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 2000)), max_size=300))
@settings(max_examples=30, deadline=None)
def test_nothing_that_may_still_come_is_ever_forgotten(
    tmp_path_factory: pytest.TempPathFactory, entries: list[tuple[int, int]]
) -> None:
    """Whoever refuses what is older than `oldest` never handles a double."""
    log = SeenLog(tmp_path_factory.mktemp("seen") / "s", seconds=500, capacity=20)
    recorded: dict[bytes, int] = {}
    for step, (key, issued) in enumerate(entries):
        now = step * 10.0
        name = b"%d-%d" % (key, issued)
        log.record([SeenEntry(name, issued)], now=now)
        recorded[name] = issued
        oldest = log.oldest(now)
        for known, when in recorded.items():
            if when >= oldest:
                assert known in log
    log.close()


def test_the_window_is_bounded_by_number(tmp_path: Path) -> None:
    log = SeenLog(tmp_path / "seen", seconds=10_000, capacity=50)
    for number in range(500):
        log.record([SeenEntry(b"%d" % number, number)], now=600)
    assert len(log) < 50 + 70
    assert log.oldest(600) >= 300
    log.close()
    assert SeenLog(tmp_path / "seen", seconds=10_000, capacity=50).oldest(600) >= 300


def test_a_failing_window_is_an_os_error(tmp_path: Path) -> None:
    log = SeenLog(tmp_path / "seen", seconds=10)
    log.close()
    with pytest.raises(OSError, match="window"):
        assert b"x" in log
    with pytest.raises(OSError, match="window"):
        log.record([SeenEntry(b"x", 1)], now=1)


def test_a_full_window_takes_nothing_and_goes_on_where_there_is_room(tmp_path: Path) -> None:
    log = SeenLog(tmp_path / "seen", seconds=1000)
    log.record([SeenEntry(b"before", 1)], now=1)
    log._database.execute("PRAGMA max_page_count = 12")
    many = [SeenEntry(b"%060d" % number, 1) for number in range(2000)]
    with pytest.raises(OSError, match="full") as full:
        log.record(many, now=1)
    assert full.value.errno == errno.ENOSPC
    assert (len(log), b"before" in log, many[0].key in log) == (1, True, False)
    log._database.execute("PRAGMA max_page_count = 10000")
    log.record(many, now=1)
    assert len(log) == 2001
    log.close()


def test_a_write_that_finds_no_room_leaves_no_half_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr("brokers.adapters.files.os.fsync", full)
    with pytest.raises(OSError, match="no space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_clients_read_comes_back_and_an_earlier_release_can_be_put_back(
    tmp_path: Path,
) -> None:
    one = Subscription("flights", "p-ua", "s", "Flight", "", reads="sessions")
    other = Subscription("flights", "p-dl", "s", "Flight", "")
    path, beside = tmp_path / "s.json", tmp_path / "s-reads.json"
    file = SubscriptionFile(path)
    file.save([one, other])
    assert file.load() == (one, other)
    # what the earlier release reads, and wrote
    assert "reads" not in path.read_text()
    without = (replace(one, reads=""), other)
    path.write_text(path.read_text() + " ")
    assert file.load() == without
    for damaged in ("", "[]", "{}", '{"reads": 1, "subscriptions": ""}'):
        file.save([one, other])
        beside.write_text(damaged)
        assert file.load() == without
    beside.unlink()
    assert file.load() == without
