"""Counting decision logs: against plain Python, over random logs, whole or not at all."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark.errors import PipelineError
from spark.jobs.activity import Activity, run
from spark.schemas import DECISION, PAIR, REVOKED
from spark.session import REPOSITORY
from tests.spark import judged
from tests.spark.judged import day_of, end

DAY = 86_400_000
START = 1_800_000_000_000 - 1_800_000_000_000 % DAY
POLICY_ROLES = [("policy-1", "nurse"), ("policy-2", "nurse"), ("policy-2", "doctor")]
CLIENT_ROLES = [("p-0", "nurse"), ("p-1", "doctor"), ("p-2", "nurse"), ("p-2", "doctor")]
REVOKED_ROWS = [
    ("r-1", "client", "p-0", START + DAY // 2, START + DAY // 2 + 30_000, 0, [end()]),
    ("r-2", "client", "p-3", START + 5 * DAY, START + 5 * DAY + 30_000, 0, [end()]),
    ("r-3", "client", "p-2", START + DAY, START + DAY + 30_000, 8,
     [end("deliver", "Heat", "policy-2")]),
    ("r-4", "agent", "beta", START, START + DAY, 0, [end(before=8)]),
]  # fmt: skip
DAYS = ("2027-01-15", "2027-01-16", "2027-01-17")


def random_rows(seed, number):
    """Rows of two agents, some of them stored twice."""
    rng = np.random.default_rng(seed)
    found = []
    for position in range(number):
        action = ("publish", "deliver", "subscribe")[rng.integers(3)]
        outcome = ("granted", "suppressed", "refused")[rng.integers(3)]
        if action == "subscribe" and outcome == "suppressed":
            outcome = "granted"
        passed = outcome != "refused"
        names = ("policy-1", "policy-2", "policy-2a7n1", "policy-30", "odd")
        found.append(
            {
                "agent": ("alpha", "beta")[rng.integers(2)],
                "stream": "s",
                "sequence": int(position // 10),
                "position": int(position % 10),
                "at": int(START + rng.integers(0, 3 * DAY)),
                "revision": 7,
                "epoch": 1,
                "action": action,
                "client": ("", "p-0", "p-1", "p-2", "p-3")[rng.integers(5)],
                "type": ("", "Heat", "Alarm")[rng.integers(3)],
                "outcome": outcome,
                "reason": "" if outcome == "granted" else ("a", "b", "c")[rng.integers(3)],
                "policies": sorted(set(rng.choice(names, rng.integers(1, 4)))) if passed else [],
                "subscriptions": ["s1", "s2"][: rng.integers(0, 3)] if passed else [],
                "count": int(rng.integers(1, 5)),
            }
        )
    doubles = [found[i] for i in rng.integers(0, number, number // 5)] if number else []
    return found, [*found, *doubles]


def oracle_usage(rows):
    """The same counts, one row after the other."""
    roles_of = defaultdict(set)
    for client, role in CLIENT_ROLES:
        roles_of[client].add(role)
    named = defaultdict(set)
    for policy, role in POLICY_ROLES:
        named[policy].add(role)
    table = defaultdict(lambda: {"granted": 0, "suppressed": 0, "refused": 0, "last": 0,
                                 "reasons": Counter()})  # fmt: skip

    def add(row, kind, subject, count=None):
        entry = table[day_of(row), kind, subject]
        number = row["count"] if count is None else count
        entry[row["outcome"]] += number
        if row["outcome"] == "refused":
            entry["reasons"][row["reason"]] += number
        elif count is None:
            entry["last"] = max(entry["last"], row["at"])

    for row in rows:
        for name in row["subscriptions"]:
            began = 0 if row["action"] == "subscribe" else None
            add(row, "subscription", f"{row['client']}/{name}", began)
        if row["action"] == "subscribe":
            continue
        add(row, "all", "*")
        if row["type"]:
            add(row, "type", row["type"])
        for name in row["policies"]:
            if not name.startswith("policy-"):
                continue
            policy = "policy-" + name.removeprefix("policy-").split("a")[0]
            add(row, "policy", policy)
            for role in named[policy] & roles_of[row["client"]]:
                add(row, "role", role)
        if row["outcome"] == "refused":
            for role in roles_of[row["client"]]:
                add(row, "role", role)
    return {place: {**entry, "reasons": dict(entry["reasons"])} for place, entry in table.items()}


class Site:
    """A folder of logs with what a run needs."""

    def __init__(self, folder: Path, rows) -> None:
        self.folder = folder
        places = defaultdict(list)
        for row in rows:
            plain = {name: value for name, value in row.items() if name != "agent"}
            places[day_of(row), row["agent"]].append(plain)
        for (day, agent), held in places.items():
            path = folder / "logs" / f"date={day}" / f"agent={agent}"
            path.mkdir(parents=True)
            half = len(held) // 2
            for name, part in (("one", held[:half]), ("two", held[half:])):
                table = pa.Table.from_pylist(part, schema=DECISION)
                pq.write_table(table, path / f"{name}.parquet", compression="zstd")
        (folder / "context").mkdir()
        for name, schema, pairs in (
            ("policy_roles", PAIR, POLICY_ROLES),
            ("client_roles", PAIR, CLIENT_ROLES),
            ("revoked", REVOKED, REVOKED_ROWS),
        ):
            named = [dict(zip(schema.names, pair, strict=True)) for pair in pairs]
            pq.write_table(
                pa.Table.from_pylist(named, schema=schema), folder / "context" / f"{name}.parquet"
            )

    def job(self, days=DAYS) -> Activity:
        return Activity(
            self.folder / "logs", self.folder / "context", self.folder / "output", days,
            self.folder / "progress.jsonl",
        )  # fmt: skip

    def table(self, name):
        found = []
        for path in (self.folder / "output" / name).glob("*.parquet"):
            found += pq.ParquetFile(path).read().to_pylist()
        return found

    def usage(self):
        return {
            (row.pop("date"), row.pop("kind"), row.pop("subject")): {
                **row, "reasons": dict(row["reasons"]),
            }
            for row in self.table("usage")
        }  # fmt: skip

    def checks(self):
        return {(row.pop("revocation"), row.pop("date")): row for row in self.table("checks")}


@pytest.mark.parametrize("seed", range(3))
def test_counts_are_those_of_plain_python(spark, tmp_path, seed):
    rows, stored = random_rows(seed, 300)
    site = Site(tmp_path, stored)
    pieces = spark.conf.get("spark.sql.shuffle.partitions")
    assert run(site.job(), lambda: spark) == len(rows)
    assert spark.conf.get("spark.sql.shuffle.partitions") == pieces
    assert site.usage() == oracle_usage(rows)
    assert site.checks() == judged.checks(rows, REVOKED_ROWS)
    assert any(entry["after"] for entry in site.checks().values())


def test_days_are_counted_alone_and_a_day_without_logs_has_nothing(spark, tmp_path):
    rows, stored = random_rows(9, 120)
    site = Site(tmp_path, stored)
    run(site.job((DAYS[1], "2031-05-05")), lambda: spark)
    assert site.usage() == oracle_usage([row for row in rows if day_of(row) == DAYS[1]])


def test_a_result_is_there_whole_or_not_at_all_and_is_not_made_twice(spark, tmp_path):
    rows, stored = random_rows(4, 60)
    site = Site(tmp_path, stored)
    (site.folder / "context" / "revoked.parquet").rename(site.folder / "aside")
    with pytest.raises(PipelineError):
        run(site.job(), lambda: spark)
    assert not (site.folder / "output" / "result.json").exists()
    (site.folder / "aside").rename(site.folder / "context" / "revoked.parquet")
    assert run(site.job(), lambda: spark) == len(rows)

    def no_session():
        raise AssertionError("nothing is left to be done")

    assert run(site.job(), no_session) == len(rows)
    with pytest.raises(PipelineError):
        run(site.job(DAYS[:1]), no_session)
    lines = (tmp_path / "progress.jsonl").read_text().splitlines()
    stages = [json.loads(line)["stage"] for line in lines]
    assert stages[-1] == "done"


def test_the_command_counts_in_a_process_of_its_own(tmp_path):
    rows, stored = random_rows(5, 40)
    site = Site(tmp_path, stored)
    job = site.job()
    command = [
        *(sys.executable, "-m", "spark.jobs.activity", "--logs", job.logs),
        *("--context", job.context, "--output", job.output, "--progress", job.progress),
        *("--master", "local[1]", *(part for day in DAYS for part in ("--day", day))),
    ]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert site.usage() == oracle_usage(rows)
    assert not (job.output / ".spark").exists()
    (job.output / "result.json").write_text('{"days": []}')
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("other days")) == (1, 1)
