"""`revoke`: end rights, or say first what it would do, and look on until the receipt is there."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from brokers.policyctl import files
from brokers.policyctl.api import Api
from brokers.policyctl.errors import Exit, Stop
from brokers.policyctl.output import Output

KINDS = (
    "principal",
    "appointment",
    "role-holder",
    "role",
    "attribute",
    "agreement",
    "client-key",
    "agent",
    "trust-group-member",
)
NUMBERED = ("principal", "appointment", "agreement", "agent", "trust_group")
NAMED = ("domain", "role", "attribute", "side")
COLUMNS = ("principal", "action", "type", "attributes", "condition")
PAUSE = 1.0
SAID = {
    "revoked": "revoked; notices are on their way",
    "notice-applied": "{agent} stopped serving it",
    "applying": "the new policy goes to the agents",
    "recomputing": "encodings are to be replaced",
    "recomputed": "the encodings are replaced",
    "recompute-failed": "the computation failed",
    "staging": "what is new goes to the agents",
    "agent-staged": "{agent} holds it",
    "switching": "agents switch to the new epoch",
    "agent-switched": "{agent} uses the new epoch",
    "draining": "publishers switch; what is on its way runs out",
    "retiring": "the old epoch is taken away",
    "agent-retired": "{agent} dropped the old epoch",
    "agent-skipped": "{agent} was not reached; without a lease it delivers nothing",
    "complete": "complete; the receipt is signed",
}
"""What an event of a revocation means; others are shown as they are called."""


def revoke(api: Api, out: Output, args: argparse.Namespace) -> Exit:
    """End rights, and look on until the signed receipt is there."""
    return run(api, out, args)


def run(
    api: Api,
    out: Output,
    args: argparse.Namespace,
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Exit:
    """The same with a clock of the caller's."""
    asked = _asked(args)
    if args.impact:
        found = api.post("/revocations/impact", asked).json()
        _foreseen(out, found)
        return Exit.OK
    if not args.reason:
        raise Stop(Exit.ERROR, "say why with --reason; it stands in the audit and the receipt")
    made = api.post("/revocations", {**asked, "reason": args.reason}).json()
    if out.for_people:
        out.text(f"revoking {made['what']}; watch it as {made['uid']}")
    shown = _look_on(api, out, made, clock() + args.wait, (sleep, clock))
    done = bool(shown["state"] == "complete")
    if done and args.receipt is not None:
        receipt = json.dumps(shown["receipt"], ensure_ascii=False, indent=2, sort_keys=True)
        files.write(args.receipt, f"{receipt}\n".encode())
    if not out.for_people:
        out.data(shown)
    else:
        out.text(_ended(shown, args.receipt if done else None))
    return Exit.OK if done else Exit.PENDING


def _ended(shown: dict[str, Any], receipt: Path | None) -> str:
    if shown["state"] != "complete":
        silent = [each["audience"] for each in shown["notices"] if each["state"] != "applied"]
        waits = f"; no answer yet from {', '.join(silent)}" if silent else ""
        return f"not complete yet ({shown['state']}){waits}; it goes on by itself"
    kept = f"; it is in {receipt}" if receipt is not None else ""
    return f"all is done and the receipt is signed{kept}"


def _asked(args: argparse.Namespace) -> dict[str, Any]:
    given = {name: getattr(args, name) for name in (*NUMBERED, *NAMED)}
    named = {name: value for name, value in given.items() if value is not None}
    return {"kind": args.kind, **named}


def _look_on(
    api: Api,
    out: Output,
    made: dict[str, Any],
    until: float,
    time_of: tuple[Callable[[float], None], Callable[[], float]],
) -> dict[str, Any]:
    """Tell what happens as it happens, until it is complete or the time is up."""
    sleep, clock = time_of
    told, shown = 0, made
    with out.progress("agents that stopped", lines=True) as bar:
        while True:
            for event in shown["events"][told:] if out.for_people else ():
                agent = event["detail"].get("agent", "an agent")
                said = SAID.get(event["kind"], event["kind"])
                out.text(f"{event['at']}  {said.replace('{agent}', str(agent))}")
            told = len(shown["events"])
            applied = sum(each["state"] == "applied" for each in shown["notices"])
            bar(applied, len(shown["notices"]))
            if shown["state"] in {"complete", "failed"} or clock() >= until:
                return shown
            sleep(PAUSE)
            shown = api.get(f"/revocations/{made['id']}").json()


def _foreseen(out: Output, found: dict[str, Any]) -> None:
    if not out.for_people:
        out.data(found)
        return
    out.table(COLUMNS, [[line[name] for name in COLUMNS] for line in found["loses"]])
    who, what = found["principals"], found["lost"]
    lose = "principal loses" if who == 1 else "principals lose"
    out.text(f"{who} {lose} {what} right{'' if what == 1 else 's'}")
    for name in ("roles", "appointments", "agents", "keys"):
        if found[name]:
            out.text(f"{name}: {', '.join(found[name])}")
    out.text(f"encodings computed anew: {found['encodings']}")
