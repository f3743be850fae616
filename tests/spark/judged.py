"""Revocations held against decisions one after the other, in plain Python."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

FOREVER = 2**63 - 1
COLUMNS = ("revocation", "party", "name", "since", "until", "floor", "ended")


def day_of(row: Mapping[str, Any]) -> str:
    return datetime.fromtimestamp(row["at"] / 1000, UTC).date().isoformat()


def end(
    action: str = "", type_: str = "", policy: str = "", before: int = FOREVER, *,
    partly: bool = False,
) -> dict[str, Any]:  # fmt: skip
    return {"action": action, "type": type_, "policy": policy, "before": before, "partly": partly}


def judge(row: Mapping[str, Any], party: Mapping[str, Any]) -> str:
    """`hit`, `unclear`, `early`, `refused` or `` for one decision and one party."""
    if row["client" if party["party"] == "client" else "agent"] != party["name"]:
        return ""
    spoken = [
        each
        for each in party["ended"]
        if each["action"] in ("", row["action"]) and each["type"] in ("", row["type"])
    ]
    if row["outcome"] == "refused":
        return "refused" if spoken else ""
    over = [each for each in spoken if row["revision"] < each["before"]]
    wholly = {each["policy"] for each in over if not each["partly"]}
    partly = {each["policy"] for each in over if each["partly"]}
    if "" in wholly:
        return "hit"
    named = set()
    for name in row["policies"]:
        found = re.match(r"policy-\d+(a\d+)?", name)
        named.add(found[0] if found else "another")
    if named and named <= wholly:
        return "hit"
    if named & (wholly | partly):
        return "unclear"
    return "early" if row["revision"] < party["floor"] else ""


def checks(
    rows: Iterable[Mapping[str, Any]], revoked: Iterable[tuple[Any, ...]]
) -> dict[tuple[str, str], dict[str, Any]]:
    """What `spark.transforms.checks` is to find, by revocation and day."""
    parties = [dict(zip(COLUMNS, each, strict=True)) for each in revoked]
    table: dict[tuple[str, str], dict[str, Any]] = {}
    decided = [row for row in rows if row["action"] != "subscribe"]
    for uid in {party["revocation"] for party in parties}:
        own = [party for party in parties if party["revocation"] == uid]
        for row in decided:
            if row["at"] < own[0]["since"]:
                continue
            blank = dict.fromkeys(
                ("decisions", "within", "after", "unclear", "early", "refused", "last"), 0
            )
            entry = table.setdefault(
                (uid, day_of(row)), {**blank, "agents": set(), "contradicting": set()}
            )
            entry["decisions"] += row["count"]
            entry["agents"].add(row["agent"])
            for party in own:
                _add(entry, row, judge(row, party), late=row["at"] >= party["until"])
    return {
        place: {
            name: sorted(value) if isinstance(value, set) else value
            for name, value in entry.items()
        }
        for place, entry in table.items()
    }


def _add(entry: dict[str, Any], row: Mapping[str, Any], found: str, *, late: bool) -> None:
    if found == "refused":
        entry["refused"] += row["count"]
    if found in {"hit", "unclear"}:
        entry["last"] = max(entry["last"], row["at"])
        if not late:
            entry["within"] += row["count"]
    if late and found == "hit":
        entry["after"] += row["count"]
        entry["contradicting"].add(row["agent"])
    elif late and found in {"unclear", "early"}:
        entry[found] += row["count"]
