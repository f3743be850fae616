"""A whole recompute on a Spark session of this process."""

from __future__ import annotations

import base64
import json
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from policyengine.anonset import Encoding, Parameters, match
from policyengine.anonset.batch import encode_many
from policyengine.primitives.rand import SYSTEM_RANDOM
from spark.errors import PipelineError
from spark.files import exclusive
from spark.jobs import recompute
from spark.snapshots import SnapshotRow, read_results, read_summary
from tests.spark.cases import (
    AGENTS,
    EPOCH,
    RULES,
    SUBJECTS,
    Case,
    events_of,
    many_rows,
    no_session,
    parameters_of,
    small_rows,
)

pytestmark = pytest.mark.spark


def encodings(case: Case) -> dict[tuple[str, str, str, int], bytes]:
    rows = list(read_results(case.output))
    assert {row.epoch for row in rows} <= {EPOCH}
    found = {(row.agent, row.kind, row.key, row.position): row.encoded for row in rows}
    assert len(found) == len(rows)
    return found


def granted(case: Case, agent: str, rule: str, subject: str) -> bool:
    """Match as an agent does: some conjunction of the subject against some of the rule."""
    found = encodings(case)
    return any(
        match(found[agent, "rule", rule, i], found[agent, "subject", subject, j], case.parameters)
        .granted
        for i in range(len(RULES[rule]))
        for j in range(len(SUBJECTS[subject]))
    )  # fmt: skip


def allowed(rule: str, subject: str) -> bool:
    """Decide in the clear."""
    return any(set(need) <= set(have) for need in RULES[rule] for have in SUBJECTS[subject])


@pytest.mark.parametrize("encoding", ["tokens", "bloom"])
def test_recomputed_encodings_decide_as_the_plain_text_does(
    spark: SparkSession, case: Case, encoding: Encoding
) -> None:
    case.write(small_rows(), parameters=parameters_of(encoding))
    summary = case.run(lambda: spark)
    assert summary.rows == len(small_rows())
    answers = {
        (agent, rule, subject): granted(case, agent, rule, subject)
        for agent in AGENTS
        for rule in RULES
        for subject in SUBJECTS
    }
    assert answers == {triple: allowed(triple[1], triple[2]) for triple in answers}
    assert set(answers.values()) == {True, False}


@pytest.mark.parametrize("encoding", ["tokens", "bloom"])
def test_recomputed_encodings_work_with_inline_ones(
    spark: SparkSession, case: Case, encoding: Encoding
) -> None:
    """A change after the snapshot is encoded inline and must meet the recomputed ones."""
    case.write(small_rows(), parameters=parameters_of(encoding))
    case.run(lambda: spark)
    tokens, key = [list(SUBJECTS["p-1111111111111111"][0])], case.keys["alpha"]
    inline = encode_many("subject", tokens, key, case.parameters, random=SYSTEM_RANDOM)[0]
    other = encode_many("subject", tokens, case.keys["beta"], case.parameters,
                        random=SYSTEM_RANDOM)[0]  # fmt: skip
    rule = encodings(case)["alpha", "rule", "1", 0]
    assert match(rule, inline, case.parameters).granted
    assert not match(rule, other, case.parameters).granted


def test_two_agents_get_nothing_that_can_be_linked(spark: SparkSession, case: Case) -> None:
    case.write(small_rows())
    case.run(lambda: spark)
    alpha, beta = (
        {encoded for (agent, *_), encoded in encodings(case).items() if agent == name}
        for name in AGENTS
    )
    assert alpha
    assert beta
    assert not alpha & beta


def test_the_layout_of_a_result(spark: SparkSession, case: Case) -> None:
    case.write(small_rows())
    summary = case.run(lambda: spark)
    document = json.loads((case.output / "result.json").read_bytes())
    assert document["rows"] == len(small_rows())
    assert document["agents"] == {
        name: {"rows": agent.rows, "sha256": agent.sha256} for name, agent in summary.agents.items()
    }
    names = {path.name for path in case.output.iterdir()}
    assert names == {"result.json", ".lock", "agent=alpha", "agent=beta"}
    assert all(path.suffix == ".parquet" for path in case.output.glob("agent=*/*"))
    assert case.output.stat().st_mode & 0o777 == 0o700


def test_progress_goes_through_every_stage(spark: SparkSession, case: Case) -> None:
    case.write(small_rows())
    case.run(lambda: spark)
    lines = [json.loads(line) for line in case.progress.read_text().splitlines()]
    total = len(small_rows())
    assert {line["stage"] for line in lines} == {
        "reading", "encoding", "writing", "verifying", "done"
    }  # fmt: skip
    assert lines[-1]["stage"] == "done"
    for stage in ("reading", "encoding", "writing", "verifying", "done"):
        done = [line["done"] for line in lines if line["stage"] == stage]
        assert done == sorted(done)
        assert done[-1] == total
    assert {line["total"] for line in lines} == {total}
    assert all(before["at"] <= after["at"] for before, after in pairwise(lines))


def test_many_small_agents_share_a_job(spark: SparkSession, case: Case) -> None:
    agents = [f"agent-{number}" for number in range(12)]
    manifest = case.write(many_rows(agents, 100), agents=agents)
    assert len(recompute.shares(dict(manifest.agents))) == 1
    case.run(lambda: spark)
    rows = [(row.agent, row.key) for row in read_results(case.output)]
    assert rows == sorted((row.agent, row.key) for row in many_rows(agents, 100))


def test_a_large_agent_has_a_job_of_its_own(case: Case) -> None:
    agents = ["a", "b", "c", "d"]
    rows = [*many_rows(["a"], 10), *many_rows(["b"], 20_001), *many_rows(["c", "d"], 10_000)]
    manifest = case.write(rows, agents=agents)
    parts = [sorted(share) for share in recompute.shares(dict(manifest.agents))]
    assert parts == [["a"], ["b"], ["c", "d"]]


def test_large_agents_are_split_and_put_together_in_order(spark: SparkSession, case: Case) -> None:
    rows = list(many_rows(["alpha"], 60_000))
    case.write(rows, agents=["alpha"])
    case.run(lambda: spark)
    assert len(list(case.output.glob("agent=alpha/*.parquet"))) > 1
    keys = [row.key for row in read_results(case.output)]
    assert keys == [row.key for row in rows]


def test_no_key_and_no_token_is_left_behind(
    spark: SparkSession, case: Case, event_log: Path
) -> None:
    rows = [
        SnapshotRow(row.agent, row.kind, row.key, row.position, (*row.tokens, "marked==treasure"))
        for row in small_rows()
    ]
    case.write(rows)
    case.run(lambda: spark)
    logged = events_of(spark, event_log)
    assert b"SparkListenerJobEnd" in logged
    assert str(case.key_file).encode() not in logged
    written = logged + b"".join(
        path.read_bytes()
        for path in case.folder.rglob("*")
        if path.is_file() and path != case.key_file
    )
    for key in (*case.keys.values(), case.job_key):
        for form in (key, key.hex().encode(), base64.b64encode(key).rstrip(b"="),
                     base64.urlsafe_b64encode(key).rstrip(b"=")):  # fmt: skip
            assert form not in written
    results = b"".join(path.read_bytes() for path in case.output.rglob("*") if path.is_file())
    assert b"treasure" not in logged + results
    settings = str(spark.sparkContext.getConf().getAll())
    assert case.job_key.hex() not in settings


def test_nothing_to_encode_needs_no_spark(case: Case) -> None:
    case.write([])
    summary = case.run(no_session)
    assert summary.rows == 0
    assert set(summary.agents) == set(AGENTS)
    assert list(read_results(case.output)) == []


def test_an_agent_without_rows_stands_beside_others(spark: SparkSession, case: Case) -> None:
    case.write(small_rows(["beta"]))
    summary = case.run(lambda: spark)
    assert summary.agents["alpha"].rows == 0
    assert {row.agent for row in read_results(case.output)} == {"beta"}


def test_a_wrong_job_key_publishes_nothing(case: Case) -> None:
    case.write(small_rows())
    case.key_file.write_bytes(bytes(32))
    with pytest.raises(PipelineError, match="does not open the encoding key of agent `alpha`"):
        case.run(no_session)
    assert not (case.output / "result.json").exists()
    assert not list(case.output.glob("agent=*"))


def test_workers_refuse_a_wrong_job_key_too(spark: SparkSession, case: Case) -> None:
    """The key is changed after the driver has looked: the workers' answer counts."""
    case.write(small_rows())

    def swap() -> SparkSession:
        case.key_file.write_bytes(bytes(32))
        return spark

    with pytest.raises(PipelineError, match=r"^the job key does not open"):
        case.run(swap)
    assert not (case.output / "result.json").exists()
    assert not list(case.output.glob("agent=*"))
    assert not (case.output / ".work").exists()


def test_a_conjunction_that_does_not_fit_is_named_without_its_text(
    spark: SparkSession, case: Case
) -> None:
    tokens = tuple(f"secret=={number}" for number in range(9))
    case.write([*small_rows(["alpha"]), SnapshotRow("beta", "rule", "9", 0, tokens)])
    with pytest.raises(PipelineError, match="a rule of agent `beta` cannot be encoded") as caught:
        case.run(lambda: spark)
    assert "secret" not in str(caught.value)
    assert not (case.output / "result.json").exists()


def test_parameters_that_make_no_sense_are_refused(case: Case) -> None:
    case.write(small_rows())
    path = case.snapshot / "snapshot.json"
    document = json.loads(path.read_bytes())
    document["agents"]["beta"]["parameters"]["n"] = 0
    path.write_text(json.dumps(document))
    with pytest.raises(PipelineError, match="unusable parameters for agent `beta`"):
        case.run(no_session)


def test_a_damaged_snapshot_is_refused(case: Case) -> None:
    manifest = case.write(small_rows())
    path = case.snapshot / str(manifest.agents["alpha"].file)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(PipelineError, match="missing or damaged"):
        case.run(no_session)


def test_a_complete_result_is_left_alone(spark: SparkSession, case: Case) -> None:
    case.write(small_rows())
    first = case.run(lambda: spark)
    before = {path: path.stat().st_mtime_ns for path in case.output.rglob("*") if path.is_file()}
    assert case.run(no_session) == first
    after = {path: path.stat().st_mtime_ns for path in case.output.rglob("*") if path.is_file()}
    assert {path: at for path, at in after.items() if path.name != ".lock"} == {
        path: at for path, at in before.items() if path.name != ".lock"
    }


def test_a_result_of_another_snapshot_is_never_taken_for_ours(
    spark: SparkSession, case: Case, tmp_path: Path
) -> None:
    case.write(small_rows())
    case.run(lambda: spark)
    other = Case(tmp_path / "other", create=True)
    other.write(small_rows())
    other.output = case.output
    with pytest.raises(PipelineError, match="result of another snapshot"):
        other.run(no_session)


def test_two_runs_never_share_an_output(case: Case) -> None:
    case.write(small_rows())
    case.output.mkdir()
    with exclusive(case.output), pytest.raises(PipelineError, match="another run"):
        case.run(no_session)


@pytest.fixture
def published(spark: SparkSession, case: Case) -> Case:
    case.write(small_rows())
    case.run(lambda: spark)
    return case


def test_a_flipped_bit_in_a_partition_is_seen(published: Case) -> None:
    path = next(published.output.glob("agent=beta/*.parquet"))
    encoded = next(row for row in read_results(published.output) if row.agent == "beta").encoded
    data = path.read_bytes()
    place = data.index(encoded[:8])
    path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    with pytest.raises(PipelineError, match="agent `beta` was changed"):
        read_results(published.output)


def test_a_lost_partition_is_seen(published: Case) -> None:
    next(published.output.glob("agent=beta/*.parquet")).unlink()
    with pytest.raises(PipelineError, match="agent `beta` was changed"):
        read_results(published.output)


def test_a_doubled_partition_is_seen(published: Case) -> None:
    path = next(published.output.glob("agent=beta/*.parquet"))
    path.with_name("part-again.parquet").write_bytes(path.read_bytes())
    with pytest.raises(PipelineError, match="out of order"):
        read_results(published.output)


def test_a_partition_of_another_agent_is_seen(published: Case) -> None:
    for path in published.output.glob("agent=beta/*.parquet"):
        path.unlink()
    source = next(published.output.glob("agent=alpha/*.parquet"))
    (published.output / "agent=beta" / source.name).write_bytes(source.read_bytes())
    with pytest.raises(PipelineError, match="agent `beta` was changed"):
        read_results(published.output)


def test_rubbish_in_a_partition_is_seen(published: Case) -> None:
    (published.output / "agent=beta" / "part-more.parquet").write_bytes(b"rubbish")
    with pytest.raises(PipelineError, match="cannot be read"):
        read_results(published.output)


def test_the_command_says_what_is_wrong(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    case.write(small_rows())
    case.key_file.chmod(0o644)
    assert recompute.main(case.command()) == 1
    assert "must be a file of mode 0600" in capsys.readouterr().err
    case.key_file.unlink()
    assert recompute.main(case.command()) == 1
    assert "cannot be read" in capsys.readouterr().err


def test_the_summary_names_domain_and_epoch(published: Case) -> None:
    summary = read_summary(published.output)
    assert (summary.domain, summary.epoch) == ("heating", EPOCH)
    assert isinstance(published.parameters, Parameters)
