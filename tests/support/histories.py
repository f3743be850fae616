"""What happened in a play, written down by who saw it, and the judge of it.

A history is a list of lines, one for each thing that somebody outside of the product saw: a
publisher's program what it asked for and what it was told, a subscriber's program what it got,
the tap on the control queues what agents acknowledged and which leases were given, the test when
it took a right away and when trouble was over. Nothing of it comes from what the control plane
or an agent believes of itself. The judge knows the plain policy and these lines, and no code of
the product.

A line is one JSON object. Every line has `at` (seconds; one clock for the whole history: wall
clock on real parts, virtual time in simulations) and `what`, and beside these:

- `subscribed`: `who`, `type` (and `below`, its sub-types): by a subscriber, once its home said yes.
  From now on it must miss nothing.
- `published`: `who`, `event`, `type`, `values`: by a publisher before it asks (the attempt).
- `accepted`: `event`: by the publisher, once it was told that all of it was taken (the receipt).
- `refused`: `event`, `reason`: by the publisher, once it was told that it was not.
- `delivered`: `who`, `event`, `values`, and `by` where it is known which agent gave it: by a
  subscriber, for each time that it gets one.
- `applied`: `who`, `domain`, `kind` (`bundle` or `notice`), `number`: by the tap, for each
  acknowledgement `applied` of an agent or client.
- `leased`: `who`, `seconds`, and `asked` where that moment is known: by the tap, for each lease.
- `started`: `who`: by the test, before it starts an agent (again).
- `revoked`: `who`, and `type` where it loses events of that type alone: by the test, right after
  the commit (T0).
- `repaired`: `domain`, `revision`, `agents`: by the test, when the last trouble is over. These
  agents must have applied this revision, or a newer one, 60 s later.
- `stood`: `who`, `standing`: by whoever looks at agents' pages, each time that an agent's domain is
  `serving`, waits for a reason, or its page does not answer (`away`).
- `settled`: by the test: what was accepted before must have arrived by now. The end of the history
  is such a moment too.

Use:

    history = History()                                  # or History(path): lines go to the file
    history.note("published", who="meter", event="1", type="Water", values={"consumer": "X"})
    ...
    problems = judge(history.lines, may_read, lease=30)  # [] where everything held
    problems = judge(merged([path, path]), may_read, lease=30)

`may_read(who, type, values)` is the plain policy: the set of attributes that a subscriber reads of
an event, or None where it gets nothing of it. Revocations are none of its business.
"""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Line = Mapping[str, Any]
MayRead = Callable[[str, str, Mapping[str, Any]], set[str] | None]

CONVERGE = 60.0
"""Seconds after the repair in which every agent must be where it should."""
FIELDS: Mapping[str, tuple[str, ...]] = {
    "subscribed": ("who", "type"),
    "published": ("who", "event", "type", "values"),
    "accepted": ("event",),
    "refused": ("event", "reason"),
    "delivered": ("who", "event", "values"),
    "applied": ("who", "domain", "kind", "number"),
    "leased": ("who", "seconds"),
    "started": ("who",),
    "revoked": ("who",),
    "repaired": ("domain", "revision", "agents"),
    "stood": ("who", "standing"),
    "settled": (),
}


class History:
    """Lines in the order in which they were noted. Safe to use from many threads.

    Args:
        path: where each line is appended as soon as it is noted, for processes of their own that
            may be killed; None keeps them in memory alone.
        clock: gives `at` where a line does not say it.
    """

    def __init__(self, path: Path | None = None, clock: Callable[[], float] = time.time) -> None:
        self._path, self._clock = path, clock
        self._lock = threading.Lock()
        self.lines: list[Line] = []

    def note(self, what: str, *, at: float | None = None, **more: Any) -> None:
        """Add a line.

        Raises:
            ValueError: the judge would not know it, or it lacks something.
        """
        missing = [name for name in FIELDS.get(what, (what,)) if name not in more]
        if missing:
            raise ValueError(f"`{what}` is no line of a history, or lacks {missing}")
        with self._lock:
            line = {"at": self._clock() if at is None else at, "what": what, **more}
            self.lines.append(line)
            if self._path is not None:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")

    def count(self, what: str, **more: Any) -> int:
        """How many lines of this kind there are, with these values."""
        with self._lock:
            return sum(
                line["what"] == what and all(line.get(name) == one for name, one in more.items())
                for line in self.lines
            )


def merged(paths: Iterable[Path]) -> list[Line]:
    """The lines of several files in the order of their times; what a kill cut off is left out."""
    found: list[Line] = []
    for path in paths:
        for text in path.read_text(encoding="utf-8").splitlines(keepends=True):
            found += [json.loads(text)] if text.endswith("\n") else []
    return sorted(found, key=lambda line: line["at"])


def judge(
    lines: Iterable[Line],
    may_read: MayRead,
    *,
    lease: float,
    slack: float = 0.0,
    again: Mapping[str, int] | None = None,
    accounted: Collection[tuple[str, str]] = (),
) -> list[str]:
    """What was not as it must be; nothing where everything held.

    Args:
        lines: the history.
        may_read: the plain policy.
        lease: seconds of the domain's lease.
        slack: seconds that a line may be late, from the moment that it tells of to its noting.
        again: subscriber -> how often it may see an event once more (it was killed so often
            between getting an event and noting that).
        accounted: (subscriber, event) of what did not arrive and is known to lie elsewhere.
    """
    ordered = sorted(lines, key=lambda line: line["at"])
    told = _Told.read(ordered)
    return [
        *_wrong_deliveries(told, may_read),
        *_doubles(told, again or {}),
        *_late_deliveries(told, lease + slack),
        *_late_publications(told, lease + slack),
        *_lost(told, may_read, ordered, accounted),
        *_went_back(ordered),
        *_without_lease(ordered, slack),
        *_not_converged(ordered),
    ]


@dataclass
class _Told:
    """Lines by what they are about."""

    published: dict[str, Line] = field(default_factory=dict)
    accepted: dict[str, float] = field(default_factory=dict)
    refused: dict[str, Line] = field(default_factory=dict)
    delivered: dict[tuple[str, str], list[Line]] = field(default_factory=dict)
    subscribed: dict[str, list[Line]] = field(default_factory=lambda: defaultdict(list))
    revoked: dict[tuple[str, str], float] = field(default_factory=dict)

    def ended(self, who: str, event_type: str) -> float:
        """When somebody lost the events of a type, or everything."""
        never = float("inf")
        return min(self.revoked.get((who, each), never) for each in ("", event_type))

    @classmethod
    def read(cls, lines: Iterable[Line]) -> _Told:
        told = cls()
        for line in lines:
            if line["what"] == "published":
                told.published[line["event"]] = line
            elif line["what"] == "accepted":
                told.accepted.setdefault(line["event"], line["at"])
            elif line["what"] == "refused":
                told.refused[line["event"]] = line
            elif line["what"] == "delivered":
                told.delivered.setdefault((line["who"], line["event"]), []).append(line)
            elif line["what"] == "subscribed":
                told.subscribed[line["who"]].append(line)
            elif line["what"] == "revoked":
                told.revoked.setdefault((line["who"], line.get("type", "")), line["at"])
        return told


def _wrong_deliveries(told: _Told, may_read: MayRead) -> list[str]:
    """Only what the plain policy gives, and all of that."""
    problems = []
    for (who, event), found in told.delivered.items():
        asked = told.published.get(event)
        if asked is None:
            problems.append(f"`{who}` got `{event}`, which nobody published")
            continue
        if found[0]["at"] < asked["at"]:
            problems.append(f"`{who}` got `{event}` before it was published")
        names = may_read(who, asked["type"], asked["values"])
        right = None if names is None else {n: v for n, v in asked["values"].items() if n in names}
        problems += [
            f"`{who}` got {line['values']} of `{event}`, by the policy it is {right}"
            for line in found
            if line["values"] != right
        ]
        if event in told.refused and event not in told.accepted:
            problems.append(f"`{who}` got `{event}`, which was refused")
    return problems


def _doubles(told: _Told, again: Mapping[str, int]) -> list[str]:
    times: dict[str, int] = defaultdict(int)
    for (who, _), found in told.delivered.items():
        times[who] += len(found) - 1
    return [
        f"`{who}` saw {count} events twice, {again.get(who, 0)} may be"
        for who, count in times.items()
        if count > again.get(who, 0)
    ]


def _late_deliveries(told: _Told, limit: float) -> list[str]:
    problems = []
    for (who, event), found in told.delivered.items():
        t0 = told.ended(who, told.published.get(event, {}).get("type", ""))
        problems += [
            f"`{who}` got `{event}` {line['at'] - t0:.1f} s after its revocation"
            for line in found
            if line["at"] > t0 + limit
        ]
    return problems


def _late_publications(told: _Told, limit: float) -> list[str]:
    return [
        f"`{event}` of `{line['who']}` was taken after its revocation"
        for event, line in told.published.items()
        if event in told.accepted and line["at"] > told.ended(line["who"], line["type"]) + limit
    ]


def _lost(
    told: _Told, may_read: MayRead, lines: list[Line], accounted: Collection[tuple[str, str]]
) -> list[str]:
    """What was acknowledged to its publisher reaches everybody who is to have it."""
    settled = [line["at"] for line in lines if line["what"] == "settled"]
    settled += [line["at"] for line in lines[-1:]]
    problems = []
    for event, taken in told.accepted.items():
        asked = told.published.get(event)
        if asked is None:
            problems.append(f"`{event}` was accepted and never published")
            continue
        due = next(moment for moment in settled if moment >= taken)
        for who in told.subscribed:
            if not _must_have(told, who, asked, due, may_read) or (who, event) in accounted:
                continue
            found = told.delivered.get((who, event), [])
            if not any(line["at"] <= due for line in found):
                problems.append(f"`{who}` lacks `{event}`, accepted at {taken:.1f}")
    return problems


def _must_have(told: _Told, who: str, asked: Line, due: float, may_read: MayRead) -> bool:
    if told.ended(who, asked["type"]) <= due:
        return False  # it may have it or not
    wanted = any(
        line["at"] <= asked["at"] and asked["type"] in (line["type"], *line.get("below", ()))
        for line in told.subscribed[who]
    )
    return wanted and may_read(who, asked["type"], asked["values"]) is not None


def _went_back(lines: Iterable[Line]) -> list[str]:
    """What an audience has in force never becomes older."""
    newest: dict[tuple[str, str, str], int] = {}
    problems = []
    for line in lines:
        if line["what"] != "applied":
            continue
        place = line["who"], line["domain"], line["kind"]
        before = newest.get(place, 0)
        # A notice that was told again is applied again; a bundle goes on.
        if line["kind"] == "bundle" and line["number"] < before:
            problems.append(f"`{line['who']}` went back from revision {before} to {line['number']}")
        newest[place] = max(before, line["number"])
    return problems


def _without_lease(lines: Iterable[Line], slack: float) -> list[str]:
    """Nobody gives anything without a lease of its own since its start."""
    until: dict[str, float] = {}
    problems = []
    for line in lines:
        who = line.get("by") if line["what"] == "delivered" else line.get("who")
        if line["what"] == "started":
            until[line["who"]] = line["at"]  # what came before counts for nothing any more
        elif line["what"] == "leased":
            end = line.get("asked", line["at"]) + line["seconds"]
            until[line["who"]] = max(until.get(line["who"], float("-inf")), end)
        elif line["what"] == "delivered" and who in until and line["at"] > until[who] + slack:
            problems.append(
                f"`{who}` gave `{line['event']}` to `{line['who']}` at {line['at']:.1f}, "
                f"with a lease until {until[who]:.1f}"
            )
    return problems


def _not_converged(lines: list[Line]) -> list[str]:
    problems = []
    for repair in [line for line in lines if line["what"] == "repaired"]:
        arrived = {
            line["who"]
            for line in lines
            if line["what"] == "applied"
            and (line["kind"], line["domain"]) == ("bundle", repair["domain"])
            and line["number"] >= repair["revision"]
            and line["at"] <= repair["at"] + CONVERGE
        }
        late = sorted(set(repair["agents"]) - arrived)
        if late:
            problems.append(
                f"{', '.join(late)} had not applied revision {repair['revision']} "
                f"{CONVERGE:.0f} s after the repair"
            )
    return problems
