"""Whether the agent's folder takes what has to be kept."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from brokers.adapters.disk import DiskWatch
from tests.support.clocks import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_little_room_counts_as_none_and_is_looked_at_again(tmp_path: Path, clock: Clock) -> None:
    disk = DiskWatch(tmp_path, clock, least=2**62)
    assert not disk.ready()
    assert disk.problem == "disk-full"
    disk.least = 1
    assert not disk.ready()  # a second has not passed
    clock.time += 1
    assert disk.ready()
    assert disk.problem == ""


def test_after_a_failed_write_a_trial_must_come_through(tmp_path: Path, clock: Clock) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    disk = DiskWatch(folder, clock, least=1)
    assert disk.ready()
    disk.failed(OSError(errno.EDQUOT, "quota exceeded"))
    assert disk.problem == "disk-full"
    (folder / "trial").mkdir()  # nobody can write there
    assert not disk.ready()
    assert disk.problem == "disk-failing"
    (folder / "trial").rmdir()
    clock.time += 1
    assert disk.ready()
    assert list(folder.iterdir()) == []


def test_a_disk_that_is_gone_is_failing(tmp_path: Path, clock: Clock) -> None:
    disk = DiskWatch(tmp_path / "gone", clock)
    assert not disk.ready()
    assert disk.problem == "disk-failing"


def test_a_failure_without_a_number_is_one_too(tmp_path: Path, clock: Clock) -> None:
    disk = DiskWatch(tmp_path, clock, least=1)
    disk.failed(OSError("something"))
    assert disk.problem == "disk-failing"
    assert disk.ready()
