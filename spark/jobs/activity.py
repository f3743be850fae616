"""Count decision logs: `python -m spark.jobs.activity`.

Days are counted whole, from Parquet files below `date=<day>/agent=<name>`. The result is moved
into place and `result.json` written last, so it is there whole or not at all; a run that was cut
off is begun anew.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.errors import PySparkException

from spark.errors import PipelineError
from spark.files import exclusive, private_folder, read_json, remove, write_json
from spark.progress import Progress
from spark.schemas import DECISION_DDL, PAIR_DDL, REVOKED_DDL
from spark.transforms.activity import distinct, usage
from spark.transforms.checks import checks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RESULT = "result.json"
CONTEXT = ("policy_roles", "client_roles", "revoked")
_PIECES = "spark.sql.shuffle.partitions"
_MOST_PIECES = 200
_PIECE_BYTES = 2 << 20  # compressed, of the logs


@dataclass(frozen=True, slots=True)
class Activity:
    """One run.

    Args:
        logs: folder of the domain's decisions, partitioned by `date` and `agent`.
        context: folder with `policy_roles.parquet`, `client_roles.parquet`, `revoked.parquet`.
        output: folder for the result.
        days: the days to count, each `2026-01-31`.
        progress: file that progress lines are appended to.
    """

    logs: Path
    context: Path
    output: Path
    days: tuple[str, ...]
    progress: Path


def run(job: Activity, start_session: Callable[[], SparkSession]) -> int:
    """Count the days and publish the result, unless it is there already.

    Returns:
        How many rows of decisions were read.

    Raises:
        PipelineError: the result is of other days, or Spark failed; nothing was published.
    """
    private_folder(job.output)
    with exclusive(job.output), Progress(job.progress, len(job.days)) as progress:
        held = job.output / RESULT
        if held.exists():
            document = read_json(held)
            if document.get("days") != list(job.days):
                raise PipelineError("the folder holds the result of other days")
            return int(document["records"])
        progress.reach("reading", 0)
        records = _count(job, start_session(), progress)
        write_json(held, {"days": list(job.days), "records": records})
        progress.reach("done", len(job.days))
    return records


def _count(job: Activity, spark: SparkSession, progress: Progress) -> int:
    work = job.output / ".work"
    remove(work)
    for name in ("usage", "checks"):
        remove(job.output / name)
    pieces = spark.conf.get(_PIECES)
    try:
        policy_roles, client_roles, revoked = (
            spark.read.schema(ddl).parquet(str(job.context / f"{name}.parquet"))
            for name, ddl in zip(CONTEXT, (PAIR_DDL, PAIR_DDL, REVOKED_DDL), strict=True)
        )
        _shuffle_as_needed(job, spark)
        rows = distinct(_rows(job, spark)).persist()
        records = rows.count()
        progress.reach("reading", len(job.days))
        for name, table in (
            ("usage", usage(rows, policy_roles, client_roles)),
            ("checks", checks(rows, revoked)),
        ):
            table.coalesce(1).write.parquet(str(work / name))
        progress.reach("writing", len(job.days))
        rows.unpersist()
        for name in ("usage", "checks"):
            (work / name).rename(job.output / name)
    except (PySparkException, OSError) as error:
        raise PipelineError(f"Spark failed: {type(error).__name__}") from error
    finally:
        remove(work)
        spark.conf.set(_PIECES, str(pieces))  # the session may serve others
    return int(records)


def _shuffle_as_needed(job: Activity, spark: SparkSession) -> None:
    """Shuffle into as many pieces as the logs fill, where the operator says nothing else.

    Spark's own two hundred cost more than the counting where a day has a few thousand decisions.
    """
    if spark.sparkContext.getConf().contains(_PIECES):
        return
    size = sum(path.stat().st_size for day in _days(job) for path in day.rglob("*.parquet"))
    spark.conf.set(_PIECES, str(min(_MOST_PIECES, 1 + size // _PIECE_BYTES)))


def _days(job: Activity) -> list[Path]:
    return [path for day in job.days if (path := job.logs / f"date={day}").is_dir()]


def _rows(job: Activity, spark: SparkSession) -> DataFrame:
    paths = _days(job)
    if not paths:
        return spark.createDataFrame([], DECISION_DDL)
    reader = spark.read.schema(DECISION_DDL).option("basePath", str(job.logs))
    return reader.parquet(*map(str, paths))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _stop)
    job = Activity(
        options.logs, options.context, options.output, tuple(options.day), options.progress
    )
    started: list[SparkSession] = []
    try:
        run(job, partial(_session, options, job.output / ".spark", started))
    except PipelineError as error:
        print(f"spark.jobs.activity: {error}", file=sys.stderr)
        return 1
    finally:
        for spark in started:
            spark.stop()
        remove(job.output / ".spark")
    return 0


def _session(
    options: argparse.Namespace, local_dir: Path, started: list[SparkSession]
) -> SparkSession:
    from spark.session import SessionOptions, read_settings, session

    more = read_settings(options.settings) if options.settings else {}
    spark = session(SessionOptions(options.master, local_dir=local_dir, more=more))
    started.append(spark)
    return spark


def _stop(*_: Any) -> NoReturn:
    raise SystemExit(143)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m spark.jobs.activity")
    for name in ("logs", "context", "output", "progress"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--day", action="append", required=True)
    parser.add_argument("--master", default="local[*]")
    parser.add_argument("--settings", type=Path)
    return parser


if __name__ == "__main__":
    sys.exit(main())
