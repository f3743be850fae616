"""Agents' decisions to what was used and what was refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DECIDED: Final = ("publish", "deliver")
PASSED: Final = ("granted", "suppressed")
_NAMED_BY: Final = ("agent", "stream", "sequence", "position")
_FIELDS: Final = ("date", "outcome", "reason", "count", "at")


def distinct(rows: DataFrame) -> DataFrame:
    """Each decision once, however often its segment was sent or stored.

    Args:
        rows: columns of `schemas.DECISION_DDL`.
    """
    return rows.dropDuplicates(list(_NAMED_BY))


def usage(rows: DataFrame, policy_roles: DataFrame, client_roles: DataFrame) -> DataFrame:
    """How often each policy, role, subscription and type was used on each day.

    A role counts as used where a policy that names it let a client through that has it. It
    counts as refused where a client that has it was refused: nobody can say which role would
    have helped.

    Args:
        rows: from `distinct`.
        policy_roles: a policy's name in bundles (without an agreement's mark), a role.
        client_roles: a client's handle, a role.

    Returns:
        date, kind, subject, granted, suppressed, refused, last, and `reasons` as a map.
    """
    decided = rows.filter(f.col("action").isin(*DECIDED))
    by_policy = _by_policy(decided)
    parts = [
        _as("policy", by_policy.withColumn("subject", f.col("policy"))),
        _as("role", _by_role(decided, by_policy, policy_roles, client_roles)),
        _as("subscription", _by_subscription(rows)),
        _as("type", decided.filter(f.col("type") != "").withColumn("subject", f.col("type"))),
        _as("all", decided.withColumn("subject", f.lit("*"))),
    ]
    together = parts[0]
    for part in parts[1:]:
        together = together.unionByName(part)
    return _counted(together)


def _by_policy(decided: DataFrame) -> DataFrame:
    """One row for each policy that let something through; an agreement's part is the policy's."""
    named = decided.select(
        *_FIELDS, "client", f.explode(f.array_distinct("policies")).alias("name")
    )
    return named.withColumn("policy", f.regexp_extract("name", r"^(policy-[0-9]+)", 1)).filter(
        f.col("policy") != ""
    )


def _by_role(
    decided: DataFrame, by_policy: DataFrame, policy_roles: DataFrame, client_roles: DataFrame
) -> DataFrame:
    held = client_roles.select(f.col("left").alias("holder"), f.col("right").alias("subject"))
    named = policy_roles.select(f.col("left").alias("policy"), f.col("right").alias("subject"))
    used = by_policy.join(named, "policy").join(
        held.withColumnRenamed("holder", "client"), ["client", "subject"]
    )
    refused = decided.filter(f.col("outcome") == "refused").join(
        held.withColumnRenamed("holder", "client"), "client"
    )
    return used.select(*_FIELDS, "subject").unionByName(refused.select(*_FIELDS, "subject"))


def _by_subscription(rows: DataFrame) -> DataFrame:
    """Deliveries by subscription; one that began and got nothing yet counts nothing."""
    named = rows.select(
        *_FIELDS, "action", "client", f.explode("subscriptions").alias("name")
    ).withColumn("subject", f.concat_ws("/", "client", "name"))
    began = f.col("action") == "subscribe"
    return named.withColumn("count", f.when(began, 0).otherwise(f.col("count"))).withColumn(
        "at", f.when(began, 0).otherwise(f.col("at"))
    )


def _as(kind: str, rows: DataFrame) -> DataFrame:
    return rows.select(*_FIELDS, "subject", f.lit(kind).alias("kind"))


def _counted(rows: DataFrame) -> DataFrame:
    by_reason = rows.groupBy("date", "kind", "subject", "outcome", "reason").agg(
        f.sum("count").alias("count"), f.max("at").alias("at")
    )
    outcome = f.col("outcome")
    reasons = f.when((outcome == "refused") & (f.col("count") > 0), f.struct("reason", "count"))
    return by_reason.groupBy("date", "kind", "subject").agg(
        sum_where(outcome == "granted").alias("granted"),
        sum_where(outcome == "suppressed").alias("suppressed"),
        sum_where(outcome == "refused").alias("refused"),
        f.coalesce(f.max(f.when(outcome.isin(*PASSED), f.col("at"))), f.lit(0)).alias("last"),
        f.map_from_entries(f.collect_list(reasons)).alias("reasons"),
    )


def sum_where(condition: Column) -> Column:
    """How many decisions meet a condition; 0 where none does."""
    return f.coalesce(f.sum(f.when(condition, f.col("count"))), f.lit(0))
