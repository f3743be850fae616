"""Agents' decisions held against revocations: what passed that was not to pass any more.

The revocations are a small table that goes to every executor; the decisions stay where they are
until they are summed by revocation and day.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from spark.transforms.activity import DECIDED, PASSED, sum_where

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# A guest's policy is named with its agreement and a part; which part says nothing here.
_POLICY: Final = r"^(policy-[0-9]+(?:a[0-9]+)?)"
_COUNTS: Final = ("within", "after", "unclear", "early", "refused", "last")


def checks(rows: DataFrame, revoked: DataFrame) -> DataFrame:
    """What of each revocation still passed on each day, of all decisions since it.

    Something passed by what was revoked where a policy let it through that ended for that party
    and was not given again by the revision that decided. Where another policy let it through as
    well, or the policy ended in part only, the log does not tell by which of them. What passed by
    other rights alone is `early` where the agent decided it under a revision that the notice had
    put out of use, and nothing otherwise.

    Args:
        rows: from `distinct`.
        revoked: columns of `schemas.REVOKED_DDL`.

    Returns:
        revocation, date, decisions (of anybody, since then) and agents (theirs); within (passed
        by what was revoked before `until`), after (from `until` on; `contradicting` are the
        agents), unclear (from then on, see above), early (the same), refused, and last (when
        something passed by what was revoked).
    """
    decided = rows.filter(f.col("action").isin(*DECIDED))
    looked = _looked(decided, revoked)
    found = _found(decided, revoked)
    return looked.join(f.broadcast(found), ["revocation", "date"], "left").select(
        "revocation",
        "date",
        "decisions",
        *(f.coalesce(name, f.lit(0)).alias(name) for name in _COUNTS),
        "agents",
        f.coalesce("contradicting", f.array().cast("array<string>")).alias("contradicting"),
    )


def _looked(decided: DataFrame, revoked: DataFrame) -> DataFrame:
    """How many decisions there were since each revocation.

    Decisions are summed once by how many revocations came before them, not once for each.
    """
    moments = revoked.agg(f.sort_array(f.collect_set("since")).alias("moments"))
    ranked = decided.crossJoin(f.broadcast(moments)).withColumn(
        "rank", f.size(f.filter("moments", lambda moment: moment <= f.col("at")))
    )
    summed = (
        ranked.filter("rank > 0")
        .groupBy("date", "rank")
        .agg(f.sum("count").alias("count"), f.collect_set("agent").alias("agents"))
    )
    own = revoked.select("revocation", "since").distinct().crossJoin(f.broadcast(moments))
    placed = own.select("revocation", f.array_position("moments", f.col("since")).alias("place"))
    return (
        summed.join(f.broadcast(placed), f.col("rank") >= f.col("place"))
        .groupBy("revocation", "date")
        .agg(
            f.sum("count").alias("decisions"),
            f.sort_array(f.array_distinct(f.flatten(f.collect_list("agents")))).alias("agents"),
        )
    )


def _found(decided: DataFrame, revoked: DataFrame) -> DataFrame:
    """What was decided about each revoked party, summed."""
    clients, agents = (
        f.broadcast(revoked.filter(f.col("party") == party)) for party in ("client", "agent")
    )
    since = f.col("at") >= f.col("since")
    theirs = decided.join(clients, (f.col("client") == f.col("name")) & since).unionByName(
        decided.join(agents, (f.col("agent") == f.col("name")) & since)
    )
    judged = theirs.select("revocation", "date", "agent", "at", "count", *_judgements())
    return judged.groupBy("revocation", "date").agg(
        sum_where(f.col("hit") & ~f.col("late")).alias("within"),
        sum_where(f.col("clean") & f.col("late")).alias("after"),
        sum_where(f.col("hit") & ~f.col("clean") & f.col("late")).alias("unclear"),
        sum_where(f.col("early") & f.col("late")).alias("early"),
        sum_where(f.col("denied")).alias("refused"),
        f.coalesce(f.max(f.when(f.col("hit"), f.col("at"))), f.lit(0)).alias("last"),
        f.sort_array(f.collect_set(f.when(f.col("clean") & f.col("late"), f.col("agent")))).alias(
            "contradicting"
        ),
    )


def _judgements() -> list[Column]:
    """Of one decision about a revoked party.

    hit: something passed by what was revoked, for all that the log tells; clean: by nothing
    else; early: by other rights, under a revision that was out of use; late: when nothing was
    to pass any more; denied: refused, where it had lost something.
    """
    passed = f.col("outcome").isin(*PASSED)
    spoken = f.filter("ended", _speaks_of)
    ended = f.filter(spoken, lambda end: f.col("revision") < end["before"])
    named = f.transform("policies", lambda name: f.regexp_extract(name, _POLICY, 1))
    gone = f.filter(ended, lambda end: ~end["partly"])
    everything = f.exists(gone, lambda end: end["policy"] == "")
    by_ended = f.arrays_overlap(named, f.transform(ended, lambda end: end["policy"]))
    by_others = f.size(f.array_except(named, f.transform(gone, lambda end: end["policy"]))) > 0
    hit = passed & (everything | by_ended)
    return [
        hit.alias("hit"),
        (hit & (everything | ~by_others)).alias("clean"),
        (passed & ~(everything | by_ended) & (f.col("revision") < f.col("floor"))).alias("early"),
        (f.col("at") >= f.col("until")).alias("late"),
        ((f.col("outcome") == "refused") & (f.size(spoken) > 0)).alias("denied"),
    ]


def _speaks_of(end: Column) -> Column:
    return end["action"].isin("", f.col("action")) & end["type"].isin("", f.col("type"))
