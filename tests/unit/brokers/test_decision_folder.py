"""The decision log on disk: spans without holes, crashes, full disks, old segments."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from brokers.adapters.decisions import DecisionFolder
from brokers.ports import Decision
from policyengine.bundles import DecisionRow
from policyengine.bundles.decisions import MAX_SEGMENT

ONE = Decision("deliver", "p-1", "Flight", "granted", "", 1, ("policy-3",), ("s",))
DAYS = {"flights": 30}


MADE: list[DecisionFolder] = []


def folder(tmp_path, **options):
    made = DecisionFolder(tmp_path / "log", **options)
    MADE.append(made)
    return made


@pytest.fixture(autouse=True)
def _no_file_stays_open():
    yield
    for made in MADE:
        for writer in made._open.values():
            writer._file.close()
    MADE.clear()


def contents(log, domain="flights"):
    return [log.read(one) for one in log.finished(domain)]


def test_spans_join_on_and_numbers_have_no_holes(tmp_path):
    log = folder(tmp_path, full_after=10, empty_after=30)
    log.tend(1000.0, DAYS)
    log.record("flights", [ONE, replace(ONE, count=3)], now=1001.0, revision=7)
    log.tend(1009.0, DAYS)
    assert log.finished("flights") == []
    log.tend(1010.0, DAYS)
    log.tend(1039.0, DAYS)
    log.tend(1040.0, DAYS)
    log.close(1050.0)
    again = folder(tmp_path, full_after=10)
    again.tend(2000.0, DAYS)
    again.close(2001.0)
    found = contents(again)
    assert [(one.begin, one.end) for one in found] == [
        (1_000_000, 1_010_000), (1_010_000, 1_040_000), (1_040_000, 1_050_000),
        (1_050_000, 2_001_000),
    ]  # fmt: skip
    assert [one.sequence for one in again.finished("flights")] == [1, 2, 3, 4]
    assert {one.stream for one in found} == {found[0].stream}
    rows = [DecisionRow.from_line(line) for line in found[0].lines]
    assert [(row.at, row.revision, row.client, row.count) for row in rows] == [
        (1_001_000, 7, "p-1", 1), (1_001_000, 7, "p-1", 3),
    ]  # fmt: skip


def test_after_a_kill_the_span_ends_with_the_last_whole_row(tmp_path):
    log = folder(tmp_path)
    log.tend(1000.0, DAYS)
    log.record("flights", [ONE], now=1001.0, revision=7)
    current = tmp_path / "log" / "flights" / "current.log"
    current.write_bytes(current.read_bytes() + b'[1002000,7,"half')
    again = folder(tmp_path)
    again.tend(1100.0, DAYS)
    again.close(1101.0)
    first, second = contents(again)
    assert (first.begin, first.end, len(first.lines)) == (1_000_000, 1_001_001, 1)
    # Nobody vouches for what lies between.
    assert (second.begin, second.end) == (1_100_000, 1_101_000)
    assert second.stream == first.stream


@pytest.mark.parametrize("cut", [0, 9, 60, 95, 110, 150, 170, 400])
def test_a_file_cut_anywhere_is_taken_up_or_left_out(tmp_path, cut):
    log = folder(tmp_path)
    log.tend(1000.0, DAYS)
    log.record("flights", [ONE, ONE], now=1001.0, revision=7)
    path = tmp_path / "log" / "flights" / "current.log"
    path.write_bytes(path.read_bytes()[:cut])
    again = folder(tmp_path)
    again.tend(1100.0, DAYS)
    again.close(1101.0)
    found = contents(again)
    assert found[-1].begin == 1_100_000
    assert all(DecisionRow.from_line(line) for one in found for line in one.lines)


def test_a_domain_that_is_logged_no_more_leaves_a_hole(tmp_path):
    log = folder(tmp_path)
    log.tend(1000.0, DAYS)
    log.tend(1010.0, {})
    log.record("flights", [ONE], now=1011.0, revision=7)
    log.tend(1020.0, DAYS)
    log.close(1030.0)
    first, second = contents(log)
    assert (first.end, second.begin, second.lost) == (1_010_000, 1_020_000, 1)


def test_what_finds_no_room_is_counted(tmp_path):
    log = folder(tmp_path)
    log.tend(1000.0, DAYS)
    wide = replace(ONE, type="T" * 128, policies=tuple(f"policy-{n:050}" for n in range(100)))
    log.record("flights", [wide] * 100, now=1001.0, revision=7)
    log.tend(1001.5, DAYS)
    log.close(1002.0)
    first, second = contents(log)
    assert len(first.lines) + first.lost == 100
    assert first.lost > 0
    assert sum(map(len, first.lines)) <= MAX_SEGMENT
    assert second.lost == 0


def test_old_segments_leave_and_so_do_the_oldest_of_too_many(tmp_path):
    log = folder(tmp_path, most_bytes=2000, full_after=1)
    for second in range(30):
        log.tend(1000.0 + second, DAYS)
        log.record("flights", [ONE], now=1000.5 + second, revision=7)
    held = log.finished("flights")
    assert sum(one.path.stat().st_size for one in held) <= 2500
    assert held[-1].sequence == 29
    log.tend(5e9, DAYS)
    log.tend(5e9 + 1, DAYS)
    assert [one.sequence for one in log.finished("flights")] == []


def test_lost_numbers_begin_a_new_stream(tmp_path):
    log = folder(tmp_path)
    log.tend(1000.0, DAYS)
    log.close(1001.0)
    (tmp_path / "log" / "flights" / "stream.json").write_text("{half")
    before = contents(log)[0].stream
    (log.finished("flights")[0]).path.unlink()
    again = folder(tmp_path)
    again.tend(1100.0, DAYS)
    again.close(1101.0)
    (after,) = contents(again)
    assert after.stream != before
    assert after.begin == 1_100_000


def test_a_damaged_segment_is_told(tmp_path):
    log = folder(tmp_path)
    log.tend(1000.0, DAYS)
    log.close(1001.0)
    (segment,) = log.finished("flights")
    head = json.loads(segment.path.read_bytes().splitlines()[0])
    for damaged in (b"", b"[]\n[]\n", json.dumps({**head, "sequence": 9}).encode() + b"\n{}\n"):
        segment.path.write_bytes(damaged)
        with pytest.raises((ValueError, KeyError, TypeError)):
            log.read(segment)
