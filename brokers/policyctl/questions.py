"""`access` and `explain`: who may do what, and why."""

from __future__ import annotations

import argparse
from typing import Any

from brokers.policyctl.api import Api
from brokers.policyctl.errors import Exit
from brokers.policyctl.output import Output

ASKED = ("domain", "principal", "action", "type", "attribute", "at")
COLUMNS = ("domain", "principal", "right", "type", "attributes", "condition", "policies")


def query(args: argparse.Namespace, names: tuple[str, ...]) -> list[tuple[str, str]]:
    """What of the command line goes into the address."""
    given = ((name, getattr(args, name)) for name in names)
    return [(name, str(value)) for name, value in given if value is not None]


def access(api: Api, out: Output, args: argparse.Namespace) -> Exit:
    """List what principals may do, now or at a moment."""
    found: list[dict[str, Any]] = []
    with out.progress("reading") as show:
        for page in api.pages("/access", query(args, ASKED)):
            found += page
            show(len(found))
            if args.limit is not None and len(found) >= args.limit:
                del found[args.limit :]
                break
    if out.for_people:
        out.table(COLUMNS, [[line.get(name) for name in COLUMNS] for line in found])
    else:
        out.data(found)
    return Exit.OK


def explain(api: Api, out: Output, args: argparse.Namespace) -> Exit:
    """Say why a principal may do something, or what it lacks."""
    found = api.get("/explain", query(args, ASKED)).json()
    if out.for_people:
        _tell(out, found)
    else:
        out.data(found)
    return Exit.OK if found["allowed"] else Exit.REFUSED


def _tell(out: Output, found: dict[str, Any]) -> None:
    out.text(found["summary"], "green" if found["allowed"] else "red")
    for reason in found.get("chain", ()):
        out.text(f"  {'  ' * reason['depth']}{reason['text']}")
    for each in found.get("missing", ()):
        out.text(f"  missing: {each['text']}")
        for step in each.get("steps", ()):
            out.text(f"    {step['text']}")
