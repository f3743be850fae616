"""Encode a whole snapshot: `python -m spark.jobs.recompute`.

A large agent is a Spark job of its own, small ones share one. An agent is finished when
its files have been read back, checked against the snapshot and moved into place; a run
that was cut off goes on after the last finished agents. `result.json` is written last,
so a result is there whole or not at all.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from spark.errors import PipelineError
from spark.files import exclusive, private_folder, read_json, remove, sync, write_json
from spark.progress import Progress
from spark.results import (
    RESULT,
    AgentResult,
    Summary,
    agent_folder,
    digest_of,
    publish,
    read_summary,
)
from spark.schemas import INDEX
from spark.snapshots import Manifest, ManifestEntry
from spark.sources import rows_of
from spark.transforms.encode import BatchEncoder, encoded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TOGETHER = 2
"""Spark jobs at a time: while one is checked, the next one keeps the cores busy."""
_SHARED_ROWS = 20_000
"""Agents share a Spark job up to so many rows: a job costs as much as thousands of rows."""
_TICK = 0.5
SPARK_FOLDER = ".spark"
"""Where Spark spills to, within the output: never outside the run's own folder."""


@dataclass(frozen=True, slots=True)
class Recompute:
    """One run.

    Args:
        snapshot: folder that `snapshots.write_snapshot` wrote.
        output: folder for the result; it may hold the rest of a run that was cut off.
        key_file: path of the job key.
        progress: file that progress lines are appended to.
        password_file: for a snapshot in a database, the file with its password.
    """

    snapshot: Path
    output: Path
    key_file: Path
    progress: Path
    password_file: Path | None = None


def run(job: Recompute, start_session: Callable[[], SparkSession]) -> Summary:
    """Compute what is missing of a result and publish it.

    Args:
        job: the run.
        start_session: gives the Spark session; not called where nothing is to be done.

    Returns:
        What was published.

    Raises:
        PipelineError: damaged input, another job key, or a failure in Spark; nothing
            was published, and what was finished is kept for the next run.
    """
    manifest = Manifest.load(job.snapshot)
    private_folder(job.output)
    with exclusive(job.output), Progress(job.progress, manifest.rows) as progress:
        if (job.output / RESULT).exists():
            summary = _published(job.output, manifest)
        else:
            _check_input(job, manifest)
            progress.reach("reading", manifest.rows)
            summary = _Run(job, manifest, progress, start_session).complete()
        progress.reach("done", summary.rows)
    return summary


def _published(output: Path, manifest: Manifest) -> Summary:
    summary = read_summary(output)
    if summary.snapshot != manifest.digest:
        raise PipelineError(f"`{output}` already holds the result of another snapshot")
    return summary


def _check_input(job: Recompute, manifest: Manifest) -> None:
    """Refuse before Spark is started what can only fail."""
    BatchEncoder.open(job.snapshot, job.key_file).check()
    manifest.check_files()


class _Run:
    """The part of a run in which something is computed."""

    def __init__(
        self,
        job: Recompute,
        manifest: Manifest,
        progress: Progress,
        start_session: Callable[[], SparkSession],
    ) -> None:
        self._job, self._manifest, self._progress = job, manifest, progress
        self._start_session = start_session
        self._records = private_folder(job.output / ".finished")
        self._work = job.output / ".work"

    def complete(self) -> Summary:
        """Compute the agents that are not finished, then publish all of them."""
        for leftover in (self._work, self._job.output / SPARK_FOLDER):
            remove(leftover)
        private_folder(self._work)
        results: dict[str, AgentResult] = {}
        missing: dict[str, ManifestEntry] = {}
        for name, entry in self._manifest.agents.items():
            kept = self._finished(name, entry)
            if kept is None:
                missing[name] = entry
            else:
                results[name] = kept
                self._passed(entry.rows)
        try:
            results |= self._compute(missing)
        finally:
            remove(self._work)
        return self._publish(results)

    def _passed(self, rows: int) -> None:
        for stage in ("encoding", "writing", "verifying"):
            self._progress.add(stage, rows)

    def _finished(self, name: str, entry: ManifestEntry) -> AgentResult | None:
        """Give what an earlier run finished for an agent, if it is still sound."""
        folder = agent_folder(self._job.output, name)
        if entry.rows == 0:
            remove(folder)
            return digest_of(folder, epoch=self._manifest.epoch)[0]
        try:
            record = read_json(self._records / f"{name}.json")
            result, index = digest_of(folder, epoch=self._manifest.epoch)
        except PipelineError:
            remove(folder)
            return None
        sound = {"snapshot": self._manifest.digest, "sha256": result.sha256, "index": index}
        if record != sound:
            remove(folder)
            return None
        return result

    def _compute(self, missing: dict[str, ManifestEntry]) -> dict[str, AgentResult]:
        if not missing:
            return {}
        spark = self._start_session()
        counter = spark.sparkContext.accumulator(0)
        before = self._manifest.rows - sum(entry.rows for entry in missing.values())
        with ThreadPoolExecutor(_TOGETHER, thread_name_prefix="recompute") as pool:
            futures = [pool.submit(self._share, spark, one, counter) for one in shares(missing)]
            try:
                pending = set(futures)
                while pending:
                    done, pending = wait(pending, _TICK, FIRST_EXCEPTION)
                    # Tasks of a lost executor run again and are counted twice.
                    counted = min(before + int(counter.value), self._manifest.rows)
                    self._progress.reach("encoding", counted)
                    for future in done:
                        future.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                spark.sparkContext.cancelAllJobs()
                raise
        return {name: result for future in futures for name, result in future.result().items()}

    def _share(
        self, spark: SparkSession, share: dict[str, ManifestEntry], counter: Any
    ) -> dict[str, AgentResult]:
        """Encode some agents' rows in one Spark job, check them and move them into place."""
        folder = self._work / next(iter(share))
        self._encode(spark, share, folder, counter)
        return {name: self._take_over(name, entry, folder) for name, entry in share.items()}

    def _encode(
        self, spark: SparkSession, share: dict[str, ManifestEntry], folder: Path, counter: Any
    ) -> None:
        from pyspark.errors import PySparkException

        try:
            table = encoded(
                rows_of(spark, self._manifest, share, self._job.password_file),
                snapshot=self._job.snapshot,
                key_file=self._job.key_file,
                counter=counter,
            )
            if len(share) == 1:
                table.drop("agent").write.parquet(str(agent_folder(folder, next(iter(share)))))
            else:
                # Sorted here, as the writer would sort by agent alone and might mix the rest.
                rows = table.sortWithinPartitions("agent", *INDEX)
                rows.write.partitionBy("agent").parquet(str(folder))
        except PySparkException as error:
            raise PipelineError(_reason(str(error))) from None

    def _take_over(self, name: str, entry: ManifestEntry, folder: Path) -> AgentResult:
        self._progress.add("writing", entry.rows)
        made = agent_folder(folder, name)
        result, index = digest_of(made, epoch=self._manifest.epoch)
        if index != entry.index:
            raise PipelineError(f"the result for agent `{name}` is not what the snapshot asks for")
        self._finish(name, made, result, index)
        self._progress.add("verifying", entry.rows)
        return result

    def _finish(self, name: str, folder: Path, result: AgentResult, index: str) -> None:
        for path in folder.iterdir():
            if path.suffix == ".parquet":
                sync(path)
            else:
                remove(path)
        sync(folder)
        folder.rename(agent_folder(self._job.output, name))
        sync(self._job.output)
        record = {"snapshot": self._manifest.digest, "sha256": result.sha256, "index": index}
        write_json(self._records / f"{name}.json", record)

    def _publish(self, results: dict[str, AgentResult]) -> Summary:
        for path in self._job.output.glob("agent=*"):
            if path.name.removeprefix("agent=") not in results:
                remove(path)
        ordered = {name: results[name] for name in sorted(results)}
        manifest = self._manifest
        summary = Summary(manifest.domain, manifest.epoch, manifest.digest, ordered)
        publish(self._job.output, summary)
        remove(self._records)
        return summary


def shares(agents: dict[str, ManifestEntry]) -> list[dict[str, ManifestEntry]]:
    """Divide agents into Spark jobs: large ones alone, small ones together."""
    found: list[dict[str, ManifestEntry]] = []
    room = 0
    for name, entry in agents.items():
        if not found or entry.rows > room:
            found.append({})
            room = _SHARED_ROWS
        found[-1][name] = entry
        room -= entry.rows
    return found


def _reason(text: str) -> str:
    """Find our own sentence in a failure that Spark reports with all its frames."""
    marker = f"{PipelineError.__module__}.{PipelineError.__name__}: "
    for line in text.splitlines():
        if marker in line:
            return line.split(marker, 1)[1].strip()
    return f"spark failed: {text.splitlines()[0] if text else 'no reason given'}"


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m spark.jobs.recompute", description="Encode a whole snapshot."
    )
    parser.add_argument("--snapshot", type=Path, required=True, help="folder to read")
    parser.add_argument("--output", type=Path, required=True, help="folder to write")
    parser.add_argument("--key-file", type=Path, required=True, help="file with the job key")
    parser.add_argument("--progress", type=Path, required=True, help="file for progress lines")
    parser.add_argument("--master", default="local[*]", help="Spark master")
    parser.add_argument("--memory", default="512m", help="heap of driver and executors")
    parser.add_argument("--event-log", type=Path, help="folder for Spark's event log")
    parser.add_argument("--settings", type=Path, help="file with more settings of Spark's")
    parser.add_argument("--password-file", type=Path, help="password of a snapshot's database")
    parser.add_argument("--jdbc-driver", type=Path, help="jar with PostgreSQL's JDBC driver")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line.

    Returns:
        0 when the result is there, 1 when the run failed (the reason is on standard
        error). A run that is told to stop exits with 143 and can be started again.
    """
    options = arguments(sys.argv[1:] if argv is None else argv)
    job = Recompute(
        options.snapshot.resolve(),
        options.output.resolve(),
        options.key_file.resolve(),
        options.progress.resolve(),
        options.password_file and options.password_file.resolve(),
    )
    signal.signal(signal.SIGTERM, _stop)
    started: list[SparkSession] = []
    local_dir = job.output / SPARK_FOLDER
    try:
        run(job, partial(_session, options, local_dir, started))
    except PipelineError as error:
        print(f"recompute: {error}", file=sys.stderr)
        return 1
    finally:
        for spark in started:
            spark.stop()
        remove(local_dir)
    return 0


def _session(
    options: argparse.Namespace, local_dir: Path, started: list[SparkSession]
) -> SparkSession:
    from spark.session import SessionOptions, read_settings, session

    spark = session(
        SessionOptions(
            options.master,
            options.memory,
            local_dir,
            options.event_log,
            _jars(options),
            options.password_file and options.password_file.resolve(),
            read_settings(options.settings) if options.settings else {},
        )
    )
    started.append(spark)
    return spark


def _jars(options: argparse.Namespace) -> tuple[Path, ...]:
    """The JDBC driver where the snapshot is in a database; a reason where it is missing."""
    if Manifest.load(options.snapshot).table is None:
        return ()
    if options.jdbc_driver is None or not options.jdbc_driver.is_file():
        raise PipelineError(
            f"PostgreSQL's JDBC driver is missing at `{options.jdbc_driver}`: install "
            "libpostgresql-jdbc-java, or name its jar"
        )
    return (options.jdbc_driver.resolve(),)


def _stop(number: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
