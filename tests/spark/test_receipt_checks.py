"""Decisions held against revocations: against plain Python, over random logs and revocations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from spark.schemas import DECISION_DDL, REVOKED_DDL
from spark.transforms.checks import checks
from tests.spark import judged
from tests.spark.judged import FOREVER, end

START = 1_800_000_000_000
HOUR = 3_600_000
POLICIES = ("policy-1", "policy-2", "policy-2a7n1", "policy-2a7n2", "policy-2a8n1", "odd")
ENDED = ("policy-1", "policy-2", "policy-2a7", "policy-2a8")


def decision(**changes: Any) -> dict[str, Any]:
    members = {
        "stream": "s", "sequence": 1, "position": 0, "at": START + HOUR, "revision": 9, "epoch": 1,
        "action": "deliver", "client": "p-1", "type": "Heat", "outcome": "granted", "reason": "",
        "policies": ["policy-1"], "subscriptions": [], "count": 1, "date": "", "agent": "alpha",
    }  # fmt: skip
    row = {**members, **changes}
    row["date"] = judged.day_of(row)
    return row


def found(spark: SparkSession, rows: list[Any], revoked: list[Any]) -> dict[Any, Any]:
    """What Spark finds."""
    names = [part.split()[0] for part in DECISION_DDL.split(", ")]
    plain = [tuple(row[name] for name in names) for row in rows]
    table = [(*each[:-1], [tuple(one.values()) for one in each[-1]]) for each in revoked]
    result = checks(
        spark.createDataFrame(plain, DECISION_DDL).coalesce(2),
        spark.createDataFrame(table, REVOKED_DDL).coalesce(1),
    )
    return {
        (row.pop("revocation"), row.pop("date")): row
        for row in (one.asDict() for one in result.collect())
    }


@pytest.fixture(scope="module", autouse=True)
def few_pieces(spark: SparkSession) -> Any:
    pieces = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", str(pieces))


def some(rng: np.random.Generator, values: tuple[Any, ...], most: int = 3) -> list[Any]:
    return sorted({values[rng.integers(len(values))] for _ in range(rng.integers(0, most + 1))})


def one(rng: np.random.Generator, *values: Any) -> Any:
    return values[rng.integers(len(values))]


def random_row(rng: np.random.Generator, number: int) -> dict[str, Any]:
    outcome = one(rng, "granted", "suppressed", "refused")
    return decision(
        sequence=number,
        at=int(START + rng.integers(0, 60) * HOUR),
        revision=int(rng.integers(1, 12)),
        action=one(rng, "publish", "deliver", "deliver", "subscribe"),
        client=one(rng, "", "p-1", "p-2", "p-3"),
        agent=one(rng, "alpha", "beta"),
        type=one(rng, "", "Heat", "Alarm"),
        outcome=outcome,
        policies=[] if outcome == "refused" else some(rng, POLICIES),
        count=int(rng.integers(1, 5)),
    )


def random_revocation(rng: np.random.Generator, number: int) -> list[tuple[Any, ...]]:
    since = int(START + rng.integers(0, 50) * HOUR)
    until = since + one(rng, 30_000, 2 * HOUR)
    if rng.integers(4) == 0:
        before = one(rng, FOREVER, 6)
        name = one(rng, "alpha", "beta", "gamma")
        return [(f"r-{number}", "agent", name, since, until, 0, [end(before=before)])]
    return [
        (f"r-{number}", "client", name, since, until, one(rng, 0, 5), _ends(rng))
        for name in some(rng, ("p-1", "p-2", "p-3", "p-9"))
    ]


def _ends(rng: np.random.Generator) -> list[dict[str, Any]]:
    if rng.integers(3) == 0:
        return [end(before=one(rng, FOREVER, 8))]
    return [
        end(
            one(rng, "deliver", "deliver", "publish"), one(rng, "Heat", "Alarm"), policy,
            one(rng, FOREVER, 3, 7), partly=bool(rng.integers(3) == 0),
        )
        for policy in some(rng, ENDED)
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_what_is_found_is_what_plain_python_finds(spark: SparkSession, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = [random_row(rng, number) for number in range(400)]
    revoked = [each for number in range(40) for each in random_revocation(rng, number)]
    expected = judged.checks(rows, revoked)
    assert found(spark, rows, revoked) == expected
    sums = {
        name: sum(entry[name] for entry in expected.values())
        for name in ("within", "after", "unclear", "early", "refused")
    }
    assert all(sums.values()), sums


CASES = {
    "by what ended": ({}, "after"),
    "before the guarantee's moment": ({"at": START + 29_999}, "within"),
    "at the guarantee's moment": ({"at": START + 30_000}, "after"),
    "before the revocation": ({"at": START - 1}, ""),
    "under the policy that knows": ({"revision": 20}, "after"),
    "given again": ({"revision": 30}, ""),
    "by another policy, under the new one": ({"revision": 20, "policies": ["policy-3"]}, ""),
    "by another policy, under the old one": ({"policies": ["policy-3"]}, "early"),
    "by both": ({"policies": ["policy-1", "policy-3"]}, "unclear"),
    "another type": ({"type": "Alarm", "revision": 20}, ""),
    "another action": ({"action": "publish", "revision": 20}, ""),
    "somebody else": ({"client": "p-2"}, ""),
    "in part, under the old policy": ({"policies": ["policy-4"]}, "unclear"),
    "in part, under the new one": ({"policies": ["policy-4"], "revision": 20}, ""),
    "refused": ({"outcome": "refused", "policies": []}, "refused"),
    "a guest by the agreement": ({"policies": ["policy-5a7n2"]}, "after"),
    "a guest by another agreement": ({"policies": ["policy-5a8n2"], "revision": 20}, ""),
}


def test_each_way_that_something_can_have_passed(spark: SparkSession) -> None:
    ended = [
        end("deliver", "Heat", "policy-1", 30),
        end("deliver", "Heat", "policy-4", 10, partly=True),
        end("deliver", "Heat", "policy-5a7"),
    ]
    # Each case is a revocation and a client of its own.
    rows, revoked = [], []
    for number, (changes, _) in enumerate(CASES.values()):
        client = changes.get("client", f"c-{number}")
        rows.append(decision(**{**changes, "client": client, "sequence": number}))
        revoked.append((f"r-{number}", "client", f"c-{number}", START, START + 30_000, 10, ended))
    answers = found(spark, rows, revoked)
    for number, (name, (_, expected)) in enumerate(CASES.items()):
        sums = {"within": 0, "after": 0, "unclear": 0, "early": 0, "refused": 0}
        for (uid, _), entry in answers.items():
            if uid == f"r-{number}":
                for each in sums:
                    sums[each] += entry[each]
        assert {each for each, count in sums.items() if count} == {expected} - {""}, name


def test_without_revocations_nothing_is_found(spark: SparkSession) -> None:
    assert found(spark, [decision()], []) == {}
