"""`filter-key` and `reading`: clients that read hidden attributes by keys that they ask for."""

from __future__ import annotations

import argparse
from typing import Any

from brokers.client import FilterKey, Refused, Subscriber
from brokers.policyctl.api import Api
from brokers.policyctl.errors import Exit, Stop
from brokers.policyctl.events import open_client, stop_with, wait_ready
from brokers.policyctl.output import Output
from policyengine.errors import InputError

WAYS = ("filters", "policies")
"""By keys for filters that the client asks for, or by all that policies let it."""


def ask(out: Output, args: argparse.Namespace) -> Exit:
    """Ask for the key of a filter, as a client; the audit keeps the answer."""
    with open_client(Subscriber, args) as subscriber:
        if args.type is None:
            for each in subscriber.filter_keys:
                out.line(_shown(each))
            return Exit.OK
        if args.forget:
            subscriber.forget_filter_key(args.type, args.attributes)
            return Exit.OK
        wait_ready(subscriber, args)
        try:
            held = subscriber.filter_key(args.type, args.attributes, timeout=args.wait)
        except (Refused, InputError) as error:
            stop_with(error)
        out.line(_shown(held))
        return Exit.OK


def _shown(held: FilterKey) -> dict[str, Any]:
    return {
        "type": held.type,
        "attributes": list(held.attributes),
        "epochs": list(held.epochs),
        "reason": held.reason,
    }


def reading(api: Api, out: Output, args: argparse.Namespace) -> Exit:
    """Say, or show, whether a principal's client reads by keys for its filters alone."""
    place = f"/principals/{_principal(api, args.domain, args.principal)}/reading"
    if args.by is None:
        found = api.get(place).json()
    else:
        found = api.post(place, {"by_filters": args.by == "filters"}).json()
    if out.for_people:
        out.text(f"{args.principal} reads by {WAYS[0] if found['by_filters'] else WAYS[1]}")
    else:
        out.data(found)
    return Exit.OK


def _principal(api: Api, domain: str, name: str) -> int:
    for page in api.pages("/principals", [("domain", domain), ("name", name)]):
        for each in page:
            if each["name"] == name:
                return int(each["id"])
    raise Stop(Exit.ERROR, f"there is no principal `{name}` in `{domain}` that you may see")
