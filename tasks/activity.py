"""Counts decision logs: puts what agents sent into Parquet, and has Spark count whole days.

A run that is cut off, by `kill -9` too, is taken up again: segments leave the database only once
their file is on the disk, a file that was written twice counts once, and nothing is imported
before the result is whole.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from django.conf import settings

from adminapp.distribution import activity as service
from adminapp.distribution import decisionlogs, rights
from adminapp.distribution.decisionlogs import Opened
from adminapp.distribution.models import ActivityRun
from adminapp.identity.models import Domain
from spark.files import private_folder, remove, sync
from spark.jobs.activity import RESULT
from spark.schemas import DECISION, PAIR, REVOKED
from tasks import pipelines

log = logging.getLogger("portcullis.activity")

_ALIVE_SECONDS = 5.0

Follow = Callable[[list[str], Callable[[], None]], int]


class RunFailed(Exception):
    """The run did not finish; the message is fit for its page."""


def run(run_id: int, *, beat: Callable[[], None], follow: Follow | None = None) -> None:
    """Carry a run out, unless it is finished or somebody else is at it.

    Args:
        run_id: of the `ActivityRun`.
        beat: says that the outbox's row is being worked on.
        follow: starts a command and waits for its end; a process of its own by default.

    Raises:
        RunFailed: it broke and may be tried again.
    """
    found = service.take(run_id)
    if found is None:
        if service.running(run_id):
            raise RunFailed("somebody else is at it, or was a moment ago")
        return

    def alive() -> None:
        service.alive(found)
        beat()

    try:
        _carry_out(found, alive, follow or _process)
    except (RunFailed, OSError, pa.ArrowException, ValueError) as error:
        log.exception("counting decision logs failed")
        if service.fail(found, str(error)):
            raise RunFailed(str(error)) from error


def store(domain: Domain) -> int:
    """Put what agents sent into Parquet; returns how many segments."""
    count = 0
    while opened := list(decisionlogs.waiting(domain)):
        for (day, agent), rows in _by_place(opened).items():
            _write(_logs(domain) / f"date={day}" / f"agent={agent}", rows)
        decisionlogs.stored(one.segment for one in opened)
        count += len(opened)
    return count


def expire(domain: Domain) -> int:
    """Delete the days that are older than the domain wants them kept; returns how many."""
    oldest = f"date={decisionlogs.oldest_kept(domain).date().isoformat()}"
    logs = _logs(domain)
    old = [path for path in logs.glob("date=*") if path.name < oldest] if logs.is_dir() else []
    for path in old:
        remove(path)
    return len(old)


def _carry_out(found: ActivityRun, alive: Callable[[], None], follow: Follow) -> None:
    domain = found.domain
    count = store(domain)
    expire(domain)
    decisionlogs.expire(domain)
    rights.expire(domain)
    service.progress(found, "collecting", count, count)
    segments = service.uncounted(domain)
    days = service.days_of(segments, decisionlogs.oldest_kept(domain))
    if not days:
        service.keep(found, segments, (), (), ())
        service.finish(found, (), 0)
        return
    alive()
    folder = private_folder(_root() / "runs" / found.uid)
    records = _count(found, folder, days, alive, follow)
    service.keep(found, segments, days, _usage(folder), _checks(folder))
    service.finish(found, days, records)
    remove(folder)


def _count(
    found: ActivityRun,
    folder: Path,
    days: tuple[str, ...],
    alive: Callable[[], None],
    follow: Follow,
) -> int:
    # A result of a run that was cut off may be of fewer days and segments than there are now.
    remove(folder / "output")
    _write_context(folder / "context", service.context(found.domain))
    logs = private_folder(_logs(found.domain))
    command = [
        *(sys.executable, "-m", "spark.jobs.activity"),
        *("--logs", str(logs), "--context", str(folder / "context")),
        *("--output", str(folder / "output"), "--progress", str(folder / "progress.jsonl")),
        *("--master", settings.SPARK_MASTER),
        *(("--settings", settings.SPARK_SETTINGS) if settings.SPARK_SETTINGS else ()),
        *(part for day in days for part in ("--day", day)),
    ]
    service.progress(found, "counting", 0, len(days))
    status = follow(command, alive)
    if status != 0:
        raise RunFailed(f"the pipeline ended with status {status}")
    service.progress(found, "counting", len(days), len(days))
    return int(json.loads((folder / "output" / RESULT).read_text())["records"])


def _process(command: list[str], alive: Callable[[], None]) -> int:
    said = time.monotonic()

    def meanwhile() -> None:
        nonlocal said
        if time.monotonic() - said > _ALIVE_SECONDS:
            said = time.monotonic()
            alive()

    return pipelines.run(command, meanwhile=meanwhile)


# files


def _root() -> Path:
    return private_folder(Path(settings.VAR_DIR) / "decisions")


def _logs(domain: Domain) -> Path:
    return _root() / f"domain={domain.name}"


def _by_place(opened: Iterable[Opened]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    places: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for one in opened:
        for position, row in enumerate(one.rows):
            day = datetime.fromtimestamp(row.at / 1000, UTC).date().isoformat()
            places[day, one.segment.agent].append(
                {
                    "stream": one.segment.stream,
                    "sequence": one.segment.sequence,
                    "position": position,
                    **row.to_json(),
                }
            )
    return places


def _write(folder: Path, rows: list[dict[str, Any]]) -> None:
    """Write a file that is there whole or not at all; the same rows have the same name."""
    private_folder(folder)
    first, last = rows[0], rows[-1]
    name = f"{first['stream']}-{first['sequence']}-{last['stream'][:8]}-{last['sequence']}"
    path = folder / f"{name}.parquet"
    draft = folder / f".{name}.draft"
    pq.write_table(pa.Table.from_pylist(rows, schema=DECISION), draft, compression="zstd")
    sync(draft)
    draft.replace(path)
    sync(folder)


def _write_context(folder: Path, context: service.Context) -> None:
    remove(folder)
    private_folder(folder)
    for name, schema, rows in (
        ("policy_roles", PAIR, context.policy_roles),
        ("client_roles", PAIR, context.client_roles),
        ("revoked", REVOKED, context.revoked),
    ):
        named = [dict(zip(schema.names, row, strict=True)) for row in rows]
        pq.write_table(pa.Table.from_pylist(named, schema=schema), folder / f"{name}.parquet")


def _usage(folder: Path) -> Iterator[service.UsageRow]:
    for row in _rows(folder / "output" / "usage"):
        yield service.UsageRow(
            day=date.fromisoformat(row["date"]),
            kind=row["kind"],
            subject=row["subject"],
            granted=row["granted"],
            suppressed=row["suppressed"],
            refused=row["refused"],
            reasons=dict(row["reasons"] or ()),
            last=row["last"],
        )


def _checks(folder: Path) -> Iterator[service.CheckRow]:
    for row in _rows(folder / "output" / "checks"):
        yield service.CheckRow(
            revocation=row["revocation"],
            day=date.fromisoformat(row["date"]),
            decisions=row["decisions"],
            within=row["within"],
            after=row["after"],
            unclear=row["unclear"],
            early=row["early"],
            refused=row["refused"],
            last=row["last"],
            agents=tuple(row["agents"]),
            contradicting=tuple(row["contradicting"]),
        )


def _rows(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("*.parquet")):
        yield from pq.read_table(path).to_pylist()
