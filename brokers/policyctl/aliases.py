"""`alias`: attributes as they stand in encodings, and another alias for one that is burnt."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

from brokers.policyctl.api import Api
from brokers.policyctl.errors import Exit, Stop
from brokers.policyctl.output import Output

COLUMNS = ("attribute", "burnt", "policies")
TOUCHED = ("agent", "clients", "rules")
ENDED = frozenset({"done", "failed", "superseded"})
PAUSE = 1.0


def listed(api: Api, out: Output, args: argparse.Namespace) -> Exit:
    """List the attributes that stand in agents' encodings."""
    found = api.get(f"/domains/{_domain(api, args.domain)}/aliases").json()
    if out.for_people:
        out.table(COLUMNS, [[each["attribute"], each["burnt"], each["policies"]] for each in found])
    else:
        out.data(found)
    return Exit.OK


def burn(api: Api, out: Output, args: argparse.Namespace) -> Exit:
    """Give an attribute another alias, or say first what that would touch."""
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
    place = f"/domains/{_domain(api, args.domain)}"
    if args.impact:
        query = [("attribute", args.attribute)]
        _foreseen(out, api.get(f"{place}/alias-impact", query).json())
        return Exit.OK
    if not args.reason:
        raise Stop(Exit.ERROR, "say why with --reason; it stands in the audit")
    body = {"attribute": args.attribute, "reason": args.reason}
    job = api.post(f"{place}/burn-alias", body).json()
    until = clock() + args.wait
    with out.progress("encodings", lines=True) as bar:
        while job["state"] not in ENDED and clock() < until:
            sleep(PAUSE)
            job = api.get(f"/jobs/{job['id']}").json()
            bar(job["rows_done"], job["rows_total"])
    if out.for_people:
        out.text(f"{job['rows_done']} of {job['rows_total']} encodings: {job['state']}")
    else:
        out.data(job)
    if job["state"] == "failed":
        return Exit.REFUSED
    return Exit.OK if job["state"] in ENDED else Exit.PENDING


def _domain(api: Api, name: str) -> int:
    for page in api.pages("/domains", [("name", name)]):
        for each in page:
            if each["name"] == name:
                return int(each["id"])
    raise Stop(Exit.ERROR, f"there is no domain `{name}` that you may see")


def _foreseen(out: Output, found: dict[str, Any]) -> None:
    if not out.for_people:
        out.data(found)
        return
    out.table(TOUCHED, [[one[name] for name in TOUCHED] for one in found["agents"]])
    out.text(f"encodings computed anew: {found['encodings']}, kept: {found['kept']}")
    out.text(f"tested by: {', '.join(found['policies'])}")
    out.text("nobody loses or gains a right")
