"""`rollout`: policies on their way to agents, watched and decided about."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from rich.live import Live
from rich.table import Table
from rich.text import Text

from brokers.policyctl.api import Api
from brokers.policyctl.errors import Exit
from brokers.policyctl.output import Output, plain

COLUMNS = ("id", "domain", "revision", "state", "stage", "of", "since", "reason")
OPEN = ("running", "stopped")
STYLES = {
    "applied": "green",
    "waiting": "yellow",
    "rejected": "red",
    "silent": "red",
    "contradicts": "red",
}
SIGNS = {"applied": "#", "waiting": "~", "held": ".", "skipped": "-"}
LEGEND = "# holds it   ~ has not answered   . waits for its stage   - nobody waits   ! in trouble"
WORDS = {
    "rejected": "refused it",
    "silent": "silent, its lease has ended",
    "contradicts": "claims what was not built for it",
}
Rollout = dict[str, Any]
Agents = Sequence[dict[str, Any]]


def listed(api: Api, out: Output, args: argparse.Namespace) -> Exit:
    """List rollouts of policies, the newest first."""
    found = _found(api, args, limit=args.limit)
    if out.for_people:
        out.table(COLUMNS, [_row(each) for each in found])
    else:
        out.data(found)
    return Exit.OK


def go_on(api: Api, out: Output, args: argparse.Namespace) -> Exit:
    """Go on after a stop, without the agents that made it stop."""
    return _decide(api, out, args.id, "continue", {})


def stop(api: Api, out: Output, args: argparse.Namespace) -> Exit:
    """Bring what was in force before to all agents, as a new revision."""
    return _decide(api, out, args.id, "abort", {"reason": args.message})


def watch(api: Api, out: Output, args: argparse.Namespace) -> Exit:
    """Show how far each agent is until the rollouts end or stop; ends with 3 where one stopped."""
    followed = [each["id"] for each in _found(api, args) if each["state"] in OPEN]
    if not followed:
        out.text("nothing is on its way")
        return Exit.OK
    with _display(out) as display:
        while True:
            states = [_look(api, number) for number in followed]
            for rollout, agents in states:
                display.show(rollout, agents)
            display.shown()
            if all(rollout["state"] != "running" for rollout, _ in states):
                break
            time.sleep(args.interval)
    ended = {rollout["state"] for rollout, _ in states}
    return Exit.REFUSED if ended & {"stopped", "aborted"} else Exit.OK


def _found(api: Api, args: argparse.Namespace, *, limit: int = 50) -> list[Rollout]:
    query = [("limit", str(limit))]
    if args.domain:
        query.append(("domain", args.domain))
    return list(next(api.pages("/rollouts", query)))


def _look(api: Api, number: int) -> tuple[Rollout, Agents]:
    return api.get(f"/rollouts/{number}").json(), api.get(f"/rollouts/{number}/agents").json()


def _decide(api: Api, out: Output, number: int, deed: str, body: dict[str, Any]) -> Exit:
    version = api.get(f"/rollouts/{number}").json()["version"]
    found = api.post(f"/rollouts/{number}/{deed}", body, version=version).json()
    if out.for_people:
        out.text(f"rollout {number} of {found['domain']}: {found['state']}")
    else:
        out.data(found)
    return Exit.OK


def _row(rollout: Rollout) -> list[Any]:
    said = {**rollout, "of": len(rollout["stages"]), "since": rollout["created"]}
    return [*(said[name] if name != "stage" else said["stage"] + 1 for name in COLUMNS)]


# -- showing -------------------------------------------------------------------------------------


class Display(Protocol):
    """Where a rollout is shown, again and again."""

    def show(self, rollout: Rollout, agents: Agents) -> None:
        """How one stands now."""

    def shown(self) -> None:
        """All were told."""


class Lines:
    """A line for each thing that changed; for files, pipes and other programs."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._told: dict[tuple[int, str], tuple[Any, ...]] = {}

    def show(self, rollout: Rollout, agents: Agents) -> None:
        number = rollout["id"]
        stage = f"{rollout['stage'] + 1}/{len(rollout['stages'])}"
        self._tell(
            number,
            "",
            (rollout["state"], stage, rollout["reason"]),
            {"rollout": number, "domain": rollout["domain"], "revision": rollout["revision"]}
            | {"state": rollout["state"], "stage": stage, "reason": rollout["reason"]},
        )
        for each in agents:
            self._tell(
                number,
                each["agent"],
                (each["state"], each["revision"]),
                {"rollout": number, **each, "stage": each["stage"] + 1},
            )

    def shown(self) -> None:
        """Nothing is left to be told."""

    def _tell(self, number: int, name: str, now: tuple[Any, ...], said: dict[str, Any]) -> None:
        if self._told.get((number, name)) == now:
            return
        self._told[number, name] = now
        if self._out.for_people:
            self._out.text(" ".join(f"{key}={plain(value)}" for key, value in said.items()))
        else:
            self._out.line(said)


class Screen:
    """A picture that changes in its place: a bar for each stage, a mark for each agent."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._found: dict[int, tuple[Rollout, Agents]] = {}

    def show(self, rollout: Rollout, agents: Agents) -> None:
        self._found[rollout["id"]] = (rollout, agents)

    def shown(self) -> None:
        """Draw everything anew."""
        grid = Table.grid(padding=(0, 1))
        for rollout, agents in self._found.values():
            head = f"{plain(rollout['domain'])} revision {rollout['revision']}"
            grid.add_row(Text(head, style="bold"), Text(plain(rollout["state"])))
            for number in range(len(rollout["stages"])):
                mine = [each for each in agents if each["stage"] == number]
                grid.add_row(Text(f"  stage {number + 1}"), _bar(mine))
            if rollout["reason"]:
                grid.add_row(Text("  why"), Text(plain(rollout["reason"]), style="red"))
        grid.add_row(Text(""), Text(LEGEND, style="dim"))
        self._live.update(grid, refresh=True)


def _bar(agents: Agents) -> Text:
    bar = Text()
    for each in agents:
        bar.append(SIGNS.get(each["state"], "!"), style=STYLES.get(each["state"], ""))
    done = sum(each["state"] == "applied" for each in agents)
    bar.append(f" {done} of {len(agents)}")
    wrong = [each for each in agents if STYLES.get(each["state"]) == "red"]
    for each in wrong:
        said = WORDS.get(each["state"], plain(each["state"]))
        why = f" ({plain(each['reason'])})" if each["reason"] else ""
        bar.append(f"  {plain(each['agent'])}: {said}{why}", style="red")
    return bar


@contextmanager
def _display(out: Output) -> Iterator[Display]:
    if not out.for_people or not out.console.is_terminal:
        yield Lines(out)
        return
    with Live(console=out.console, auto_refresh=False) as live:
        yield Screen(live)
