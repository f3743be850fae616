"""Snapshots and results as files, without Spark."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from spark import snapshots
from spark.errors import PipelineError
from spark.files import exclusive
from spark.keys import open_encoding_key, read_job_key
from spark.schemas import SNAPSHOT
from spark.snapshots import Manifest, SnapshotRow, create_job_key, read_results, write_snapshot
from tests.spark.cases import AGENTS, EPOCH, Case, small_rows


def contents(case: Case) -> list[SnapshotRow]:
    """Read a snapshot's rows back."""
    rows: list[SnapshotRow] = []
    for entry in Manifest.load(case.snapshot).agents.values():
        if entry.file is not None:
            table = pq.read_table(case.snapshot / entry.file)
            assert table.schema.equals(SNAPSHOT)
            for row in table.to_pylist():
                assert row.pop("epoch") == EPOCH
                rows.append(SnapshotRow(**{**row, "tokens": tuple(row["tokens"])}))
    return rows


def test_rows_come_back_in_order(case: Case) -> None:
    manifest = case.write(small_rows())
    assert contents(case) == sorted(small_rows(), key=lambda row: (row.agent, row.index))
    assert manifest.rows == len(small_rows())
    assert (manifest.domain, manifest.epoch) == ("heating", EPOCH)
    manifest.check_files()


def test_rows_in_any_order_give_the_same_snapshot(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "ROW_GROUP", 2)
    other = Case(tmp_path.joinpath("other"), create=True)
    straight = case.write(small_rows())
    backwards = other.write(reversed(small_rows()))
    assert contents(other) == contents(case)
    indices = [{name: entry.index for name, entry in one.agents.items()}
               for one in (straight, backwards)]  # fmt: skip
    assert indices[0] == indices[1]


def test_a_doubled_row_is_refused(case: Case) -> None:
    rows = small_rows()
    with pytest.raises(PipelineError, match="doubled"):
        case.write([*rows, rows[0]])
    assert not (case.snapshot / "snapshot.json").exists()


@pytest.mark.parametrize(
    "row",
    [
        SnapshotRow("gamma", "rule", "1", 0, ("a==1",)),
        SnapshotRow("alpha", "policy", "1", 0, ("a==1",)),
        SnapshotRow("alpha", "rule", "1", -1, ("a==1",)),
    ],
)
def test_a_row_that_fits_nothing_is_refused(case: Case, row: SnapshotRow) -> None:
    with pytest.raises(PipelineError):
        case.write([row])
    assert not (case.snapshot / "snapshot.json").exists()


@pytest.mark.parametrize("name", ["", "../alpha", "Alpha", "a" * 65, "a/b"])
def test_an_agent_has_a_name_that_a_folder_may_have(case: Case, name: str) -> None:
    with pytest.raises(PipelineError, match="is not an agent's name"):
        case.write([], agents=[name])


def test_a_snapshot_is_never_written_over(case: Case) -> None:
    case.write(small_rows())
    before = (case.snapshot / "snapshot.json").read_bytes()
    with pytest.raises(PipelineError, match="already holds a snapshot"):
        case.write([])
    assert (case.snapshot / "snapshot.json").read_bytes() == before


def test_the_snapshot_is_its_owners_alone_and_holds_no_key(case: Case) -> None:
    case.write(small_rows())
    assert case.snapshot.stat().st_mode & 0o777 == 0o700
    everything = b"".join(path.read_bytes() for path in case.snapshot.iterdir())
    for key in (*case.keys.values(), case.job_key):
        assert key not in everything
        assert key.hex().encode() not in everything
        assert base64.urlsafe_b64encode(key).rstrip(b"=") not in everything


def test_a_sealed_key_opens_for_its_agent_and_epoch_only(case: Case) -> None:
    sealed = case.write([]).agents["alpha"].sealed_key
    opened = open_encoding_key(case.job_key, sealed, agent="alpha", epoch=EPOCH)
    assert opened == case.keys["alpha"]
    for agent, epoch in (("beta", EPOCH), ("alpha", EPOCH + 1)):
        with pytest.raises(PipelineError, match="does not open"):
            open_encoding_key(case.job_key, sealed, agent=agent, epoch=epoch)


def test_a_job_key_is_private_and_new(tmp_path: Path) -> None:
    path = tmp_path / "key"
    key = create_job_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_job_key(path) == key
    assert len(key) == 32
    with pytest.raises(FileExistsError):
        create_job_key(path)


@pytest.mark.parametrize(("mode", "size"), [(0o640, 32), (0o600, 31), (0o600, 33)])
def test_a_doubtful_job_key_is_refused(tmp_path: Path, mode: int, size: int) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"k" * size)
    path.chmod(mode)
    with pytest.raises(PipelineError, match=r"0600|32 bytes"):
        read_job_key(path)


def test_damage_to_a_snapshot_is_seen(case: Case) -> None:
    manifest = case.write(small_rows())
    path = case.snapshot / str(manifest.agents["beta"].file)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(PipelineError, match="`beta` is missing or damaged"):
        manifest.check_files()


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"version": 2}', '{"version": 1, "agents": {"a": {}}}']
)
def test_a_damaged_table_of_contents_is_refused(case: Case, text: str) -> None:
    case.snapshot.mkdir()
    (case.snapshot / "snapshot.json").write_text(text)
    with pytest.raises(PipelineError):
        Manifest.load(case.snapshot)


def test_a_count_that_does_not_add_up_is_refused(case: Case) -> None:
    case.write(small_rows())
    path = case.snapshot / "snapshot.json"
    document = json.loads(path.read_bytes())
    document["rows"] += 1
    path.write_text(json.dumps(document))
    with pytest.raises(PipelineError, match="contradicts itself"):
        Manifest.load(case.snapshot)


def test_there_is_no_result_before_it_is_published(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"result\.json` is missing"):
        read_results(tmp_path)


def test_one_run_at_a_time(tmp_path: Path) -> None:
    with exclusive(tmp_path):
        second = exclusive(tmp_path)
        with pytest.raises(PipelineError, match="another run"):
            second.__enter__()
    with exclusive(tmp_path):
        pass


def test_a_key_does_not_show_when_it_is_printed(case: Case) -> None:
    case.write([])
    shown = repr(snapshots.AgentEncoding({}, case.keys["alpha"]))
    assert shown == "AgentEncoding(parameters={}, key=...)"


def test_agents_without_rows_are_in_the_snapshot(case: Case) -> None:
    manifest = write_snapshot(
        case.snapshot, domain="d", epoch=1, agents={name: snapshots.AgentEncoding({}, bytes(32))
        for name in AGENTS}, rows=[], job_key=case.job_key)  # fmt: skip
    assert [(entry.rows, entry.file) for entry in manifest.agents.values()] == [(0, None)] * 2
