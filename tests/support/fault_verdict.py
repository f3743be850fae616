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
from tests.support.fault_domain import DOMAIN, Cast
from tests.support.histories import Line, judge

_APPLIED = {"bundle applied": ("bundle", "revision"), "notice applied": ("notice", "number")}
_TICK = 1.0
"""Seconds by which two clocks' writing may differ: a log line, and a row's time."""
_DROPPED = {"hop", "carried", "backlog"}
_RETIRED = "epoch-retired"
_RIGHTS_ENDED = {"revoked", "not-authorised", "unknown-publisher"}
"""Reasons that an agent gives a publisher whose rights have ended."""


def agent_lines(agent: str, log: Path) -> list[Line]:
    """What an agent's log says that it put into force, and whose events it dropped.

    `dropped`: `who` (the agent), `kind`, `reason`, `publication`, and `client` where the event
    waited for one. A line that a kill cut off is left out.
    """
    found: list[Line] = []
    for text in log.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            entry = json.loads(text)
        except ValueError:
            continue
        if not isinstance(entry, dict):
            continue
        told = {"who": agent, "domain": entry.get("domain")}
        if entry.get("event") in _APPLIED:
            kind, number = _APPLIED[entry["event"]]
            told |= {"what": "applied", "kind": kind, "number": entry[number], "by": "log"}
        elif entry.get("event") == "refused" and entry["kind"] in _DROPPED:
            named = {name: entry[name] for name in ("kind", "reason", "publication", "client")}
            told |= {"what": "dropped", **named}
        else:
            continue
        found.append({"at": datetime.fromisoformat(entry["at"]).timestamp(), **told})
    return found


def disk_revision(state: Path) -> int:
    """The revision that an agent's disk holds, 0 before the first."""
    if not state.exists():
        return 0
    held = json.loads(state.read_bytes())["revisions"].get(DOMAIN)
    return 0 if held is None else int(held["revision"])


def verdict(
    lines: Iterable[Line], cast: Cast, *, limit: float, handles: Mapping[str, str] | None = None
) -> list[str]:
    """What was not as it must be, by everybody's histories.

    Args:
        lines: of all of them.
        cast: who takes part: the plain policy, and where each is at home.
        limit: seconds after T0 from which a revoked party gets nothing.
        handles: how brokers know each subscriber.
    """
    ordered = sorted(lines, key=lambda line: line["at"])
    sources = {
        name: [line for line in ordered if line["what"] == "applied" and line["by"] == name]
        for name in ("log", "page", "disk")
    }
    others = {"applied", "repaired", "started", "stood", "dropped", "aside"}
    plain = _without_late_noes(ordered, cast, limit)
    said = [line for line in plain if line["what"] not in others]
    repaired = [line for line in ordered if line["what"] == "repaired"]
    return [
        *judge(
            [*said, *sources["log"]],
            cast.may_read,
            lease=limit,
            accounted=accounted(ordered, cast, handles or {}),
        ),
        *judge([*sources["page"], *repaired], cast.may_read, lease=limit),
        *judge(sources["disk"], cast.may_read, lease=limit),
        *(
            f"{line['who']} put something aside as {line['reason']}"
            for line in ordered
            if line["what"] == "aside" and line["reason"] != _RETIRED
        ),
    ]


def accounted(
    lines: list[Line], cast: Cast, handles: Mapping[str, str]
) -> frozenset[tuple[str, str]]:
    """Who lacks which event for a reason that stands somewhere, for that event and that agent.

    - It came from a publisher whose rights ended, and a log says of this event, after T0, that it
      was dropped for that: the log of the reader's home agent, or of one that carried it to others.
    - The reader's home agent had no lease at some moment after it was accepted, the epoch was
      retired meanwhile, and the event lies in the agent's dead letters.
    """
    accepted = {line["publication"]: line for line in lines if line["what"] == "accepted"}
    publisher = {line["event"]: line["who"] for line in lines if line["what"] == "published"}
    since = {line["who"]: line["at"] for line in lines if line["what"] == "revoked"}
    stood = [line for line in lines if line["what"] == "stood"]
    found: set[tuple[str, str]] = set()
    for line in lines:
        taken = accepted.get(line["publication"]) if line["what"] in ("dropped", "aside") else None
        if taken is None:
            continue
        event = taken["event"]
        if line["what"] == "dropped":
            t0 = since.get(publisher.get(event, ""), float("inf"))
            lawful = line["reason"] == "revoked" and line["at"] > t0 - _TICK
            everywhere = line["kind"] == "carried"
        else:
            waited = _stopped(stood, line["who"], taken["at"] - _TICK, line["at"] + _TICK)
            lawful, everywhere = line["reason"] == _RETIRED and waited, False
        if lawful:
            found |= {
                (name, event)
                for name in cast.subscribers
                if everywhere or line["who"] in cast.homes_of(name)
                if line["client"] in ("", handles.get(name))
            }
    return frozenset(found)


def _stopped(stood: list[Line], agent: str, begin: float, end: float) -> bool:
    """Whether an agent's page said at any moment of a span that its events wait."""
    mine = [line for line in stood if line["who"] == agent and line["at"] <= end]
    before = [line for line in mine if line["at"] <= begin][-1:]
    within = [line for line in mine if line["at"] > begin]
    return any(line["standing"] != "serving" for line in (*before, *within))


def _without_late_noes(lines: list[Line], cast: Cast, limit: float) -> list[Line]:
    """Without second answers to publishers whose rights ended.

    A publisher's parts are sent again where the answer was lost with an agent or a broker. Where
    its rights ended meanwhile the second answer is no, whatever the first one was: it says nothing
    of what was published before its home agent knew of that.
    """
    asked = {line["event"]: line for line in lines if line["what"] == "published"}
    ended = {line["who"]: line for line in lines if line["what"] == "revoked"}
    known = {name: _known(lines, line, cast, limit) for name, line in ended.items()}

    def late(line: Line) -> bool:
        before = asked.get(line["event"])
        if before is None or before["who"] not in ended or line["reason"] not in _RIGHTS_ENDED:
            return False
        who = before["who"]
        return bool(before["at"] < known[who] and line["at"] > ended[who]["at"] - _TICK)

    return [line for line in lines if line["what"] != "refused" or not late(line)]


def _known(lines: list[Line], ended: Line, cast: Cast, limit: float) -> float:
    """When the home of somebody had put the end of its rights into force, by its own log."""
    last = ended["at"] + limit
    for home in cast.homes_of(ended["who"]):
        number = ended.get("notices", {}).get(home)
        applied = [line["at"] for line in lines if _is_notice(line, home, number)]
        last = min([last, *(moment + _TICK for moment in applied[:1])])
    return float(last)


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


def _is_notice(line: Line, agent: str, number: int | None) -> bool:
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
