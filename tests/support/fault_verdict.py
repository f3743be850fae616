"""What came of a fault test: histories of all who saw it, judged, and receipts held against them.

What an agent had in force is told by three that do not ask one another: its log, its page, and its
disk as `kill -9` left it. Each of the three must never go back, and what the control plane counts
as acknowledged must stand in one of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from brokers.adapters.rootfile import load_anchors
from policyengine.bundles.receipts import verify_receipt
from policyengine.errors import RejectedError
from tests.support.fault_domain import DOMAIN
from tests.support.histories import CONVERGE, Line, MayRead, judge

_APPLIED = {"bundle applied": ("bundle", "revision"), "notice applied": ("notice", "number")}
_TICK = 1.0
"""Seconds by which two clocks' writing may differ: a log line, and a row's time."""


def agent_lines(agent: str, log: Path) -> list[Line]:
    """What an agent's log says that it put into force; a line that a kill cut off is left out."""
    found: list[Line] = []
    for text in log.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            entry = json.loads(text)
        except ValueError:
            continue
        if not isinstance(entry, dict) or entry.get("event") not in _APPLIED:
            continue
        kind, number = _APPLIED[entry["event"]]
        found.append(
            {
                "at": datetime.fromisoformat(entry["at"]).timestamp(),
                "what": "applied",
                "who": agent,
                "domain": entry["domain"],
                "kind": kind,
                "number": entry[number],
                "by": "log",
            }
        )
    return found


def disk_revision(state: Path) -> int:
    """The revision that an agent's disk holds, 0 before the first."""
    if not state.exists():
        return 0
    held = json.loads(state.read_bytes())["revisions"].get(DOMAIN)
    return 0 if held is None else int(held["revision"])


def verdict(lines: Iterable[Line], may_read: MayRead, *, limit: float) -> list[str]:
    """What was not as it must be, by everybody's histories.

    Args:
        lines: of all of them.
        may_read: the plain policy.
        limit: seconds after T0 from which a revoked party gets nothing.
    """
    ordered = sorted(lines, key=lambda line: line["at"])
    sources = {
        name: [line for line in ordered if line["what"] == "applied" and line["by"] == name]
        for name in ("log", "page", "disk")
    }
    others = {"applied", "repaired", "started"}
    plain = _without_cut_short(_without_late_noes(ordered, limit), limit)
    said = [line for line in plain if line["what"] not in others]
    repaired = [line for line in ordered if line["what"] == "repaired"]
    return [
        *judge([*said, *sources["log"]], may_read, lease=limit),
        *judge([*sources["page"], *repaired], may_read, lease=limit),
        *judge(sources["disk"], may_read, lease=limit),
    ]


def _without_late_noes(lines: list[Line], limit: float) -> list[Line]:
    """A publisher's parts are sent again where the answer was lost with an agent or a broker.

    Where its rights ended meanwhile the second answer is no, whatever the first one was: it says
    nothing of what was published before that counted everywhere.
    """
    since = {line["who"]: line["at"] for line in lines if line["what"] == "revoked"}
    under_way = {
        line["event"]
        for line in lines
        if line["what"] == "published"
        and line["at"] < since.get(line["who"], float("-inf")) + limit
    }
    return [line for line in lines if line["what"] != "refused" or line["event"] not in under_way]


def _without_cut_short(lines: list[Line], limit: float) -> list[Line]:
    """What a publisher had under way as its rights ended may be dropped by whoever knows of that.

    It may have lain at an agent that was dead, so long as that and its start took, at most a
    minute. What was taken before must arrive, and what is taken later is judged as too late.
    """
    since = {line["who"]: line["at"] for line in lines if line["what"] == "revoked"}
    never = float("inf")
    cut_short = {
        line["event"]
        for line in lines
        if line["what"] == "published"
        and -CONVERGE < line["at"] - since.get(line["who"], never) <= limit
    }
    return [line for line in lines if line["what"] != "accepted" or line["event"] not in cut_short]


def unproven(acknowledged: Mapping[str, Mapping[str, list[int]]], lines: list[Line]) -> list[str]:
    """What the control plane counts as acknowledged and no agent's own record shows."""
    shown = {
        (line["who"], line["kind"], line["number"]) for line in lines if line["what"] == "applied"
    }
    return [
        f"{kind} {number} counts as applied at {agent}, which nothing of {agent} shows"
        for agent, kinds in acknowledged.items()
        for kind, numbers in kinds.items()
        for number in numbers
        if (agent, kind, number) not in shown
    ]


def judged_receipts(
    revocations: list[dict[str, Any]], anchors: Path, lines: list[Line]
) -> list[str]:
    """Every revocation has its receipt, which verifies and says what agents' own logs say."""
    key = load_anchors(anchors).receipt
    wanted = {line["who"] for line in lines if line["what"] == "revoked"}
    problems = [
        f"nothing is kept of the revocation of {name}"
        for name in sorted(wanted - {row["principal"] for row in revocations})
    ]
    for row in revocations:
        if row["state"] != "complete" or row["receipt"] is None:
            problems.append(f"the revocation of {row['principal']} is {row['state']}")
            continue
        try:
            body = verify_receipt(row["receipt"], key)
        except RejectedError as error:
            problems.append(f"the receipt of {row['principal']} does not verify: {error}")
            continue
        problems += _contradicted(row, body, lines)
    return problems


def _contradicted(row: Mapping[str, Any], body: Mapping[str, Any], lines: list[Line]) -> list[str]:
    problems = []
    if (body["revocation"], body["principal"]["name"]) != (row["uid"], row["principal"]):
        problems.append(f"the receipt of {row['principal']} is about something else")
    for entry in body["notices"]:
        name = entry["agent"]
        if entry["acknowledged"] is None:
            if name not in body["unreachable"]:
                problems.append(f"{name} did not acknowledge, and is not among the unreachable")
            continue
        told = datetime.fromisoformat(entry["acknowledged"]).timestamp() + _TICK
        if not any(
            _is_notice(line, name, entry["number"]) and line["at"] <= told for line in lines
        ):
            problems.append(
                f"the receipt of {row['principal']} has {name} enforce it at "
                f"{entry['acknowledged']}; its log has no such notice by then"
            )
    return problems


def _is_notice(line: Line, agent: str, number: int) -> bool:
    return (line["what"], line.get("kind")) == ("applied", "notice") and (
        line["who"],
        line["number"],
    ) == (agent, number)


def latest_delivery(lines: Iterable[Line]) -> float:
    """Seconds after T0 of the last delivery to a revoked party; 0 where there was none after."""
    listed = list(lines)
    since = {line["who"]: line["at"] for line in listed if line["what"] == "revoked"}
    late = [
        line["at"] - since[line["who"]]
        for line in listed
        if line["what"] == "delivered" and line["who"] in since
    ]
    return round(max([0.0, *late]), 2)


def converged_after(lines: Iterable[Line]) -> float:
    """Seconds from the repair until every agent's page showed the revision of then, or newer."""
    listed = list(lines)
    repair = next(line for line in listed if line["what"] == "repaired")
    found = []
    for agent in repair["agents"]:
        moments = [
            line["at"]
            for line in listed
            if line["what"] == "applied"
            and (line["by"], line["who"]) == ("page", agent)
            and line["number"] >= repair["revision"]
        ]
        found.append(min(moments, default=float("inf")))
    return round(max(0.0, max(found) - repair["at"]), 2)
