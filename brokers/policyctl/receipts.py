"""`receipt verify`: check a revocation's receipt without the server, and say what it proves.

`receipt check`: ask the server what agents' decision logs say of it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from brokers.adapters.brokers_file import ConfigurationError
from brokers.adapters.rootfile import load_anchors
from brokers.policyctl.api import Api
from brokers.policyctl.errors import Exit, Stop
from brokers.policyctl.output import Output
from policyengine.bundles import verify_receipt
from policyengine.errors import RejectedError

MAX_BYTES = 2**26
_REFUSED = {
    "malformed": "this is no receipt",
    "signature": "this is not what the authority signed: it was changed, or signed by another one",
}

_ENDS = {"none": Exit.OK, "nothing": Exit.OK, "broken": Exit.REFUSED}
_SAID = {
    "none": "nothing passed by what was revoked after {until}, and nothing is missing",
    "broken": "{after} events passed by what was revoked after {until}, at {contradicting}",
    "unknown": "nothing was found that passed by what was revoked after {until}, but it cannot be "
    "told: {reasons}",
    "waiting": "no decision since the revocation was counted yet",
    "nothing": "it took away nothing that agents decide about",
    "off": "agents kept no decision logs when it was revoked: nothing can be checked",
}


def verify(out: Output, args: argparse.Namespace) -> Exit:
    """Check the receipt of a revocation, and say what it proves; asks no server."""
    keys = [_receipt_key(path) for path in args.anchors]
    body = _verified(_read(args.file), keys)
    if not out.for_people:
        out.data({"genuine": True, **body})
        return Exit.OK
    out.text("genuine: signed by the authority's key for receipts", "green")
    for line in told(body):
        out.text(line)
    return Exit.OK


def check(api: Api, out: Output, args: argparse.Namespace) -> Exit:
    """Say what agents' decision logs say of a receipt; ends with 3 where they speak against it."""
    document = _read(args.file)
    body = document.get("body") if isinstance(document, dict) else None
    uid = body.get("revocation") if isinstance(body, dict) else None
    if not isinstance(uid, str):
        raise Stop(Exit.REFUSED, f"refused: {_REFUSED['malformed']}")
    rows = api.get("/revocations", [("uid", uid)]).json()["results"]
    if not rows:
        raise Stop(Exit.ERROR, "the server knows no such revocation, or does not show it to you")
    found = api.get(f"/revocations/{rows[0]['id']}/check").json()
    if out.for_people:
        for line in held_against(found):
            out.text(line)
    else:
        out.data(found)
    return _ENDS.get(found["verdict"], Exit.PENDING)


def _receipt_key(path: Path) -> bytes:
    try:
        return load_anchors(path).receipt
    except ConfigurationError as error:
        raise Stop(Exit.ERROR, str(error)) from error


def _read(path: Path) -> object:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise Stop(Exit.ERROR, f"{path} cannot be read: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise Stop(Exit.ERROR, f"{path} is too large for a receipt")
    try:
        found: object = json.loads(data.decode("utf-8"), object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise Stop(Exit.REFUSED, f"refused: {_REFUSED['malformed']}") from error
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """However it is printed, a member stands there once: no reader may see another one."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a member stands there twice")
    return found


def _verified(document: object, keys: Iterable[bytes]) -> dict[str, Any]:
    """The body that one of the keys signed."""
    reason = "signature"
    for key in keys:
        try:
            return verify_receipt(document, key)
        except RejectedError as error:
            reason = error.reason
    raise Stop(Exit.REFUSED, f"refused: {_REFUSED[reason]}")


# -- in words -----------------------------------------------------------------------------------


def told(body: Mapping[str, Any]) -> Iterator[str]:
    """What a receipt proves, in sentences.

    Args:
        body: verified; an earlier release wrote fewer members.
    """
    what = body.get("what") or body.get("principal", {}).get("name", "")
    yield (
        f"`{what}` was revoked in the domain `{body['domain']}` at {body['t0']} "
        f"by {body['actor']}: {body['reason']}"
    )
    notices = body["notices"]
    if not notices:
        yield "no agent served anybody who lost anything, so none had to be told"
    for entry in notices:
        yield _agent(entry)
    if "enforced_by" in body:
        yield (
            f"from {body['enforced_by']} on no honest agent could deliver what was revoked: each "
            "had signed that it enforces it, or its last lease from before had ended"
        )
    yield (
        f"the domain's lease is {body['lease_seconds']} seconds: so long, after the moment of the "
        "revocation, an agent that nothing reaches can go on at most"
    )
    yield from _replaced(body)
    if body["unreachable"]:
        names = ", ".join(f"`{name}`" for name in body["unreachable"])
        yield f"not reached by the end: {names}; without a lease they deliver nothing"
    else:
        yield "every agent that was asked has answered"
    yield f"complete at {body['completed']}"
    yield "not promised: what was delivered before, and what somebody keeps with its old key"


def _agent(entry: Mapping[str, Any]) -> str:
    name = f"agent `{entry['agent']}`"
    if entry["acknowledged"] is not None:
        return (
            f"{name} signed that it enforces it, heard {entry['seconds_after_t0']} s after "
            f"the revocation ({entry['acknowledged']})"
        )
    ended = entry.get("lease_ended")
    return f"{name} did not answer; " + (
        f"its last lease ended by {ended}" if ended else "it had no lease"
    )


def _replaced(body: Mapping[str, Any]) -> Iterator[str]:
    count = body["encodings_replaced"]
    yield f"encodings replaced: {count}" if count else "no encoding had to be replaced"
    for title, name in (("encodings", "epochs"), ("keys of hidden attributes", "blind_epochs")):
        moved = body.get(name) or {}
        if moved.get("to") is not None:
            yield f"epoch of {title}: from {moved['from']} to {moved['to']}"
    for key in body.get("keys_replaced", ()):
        ref, _, number = str(key).rpartition(" ")
        yield f"key `{ref}` was replaced; its epoch is {number} now"


def held_against(found: Mapping[str, Any]) -> Iterator[str]:
    """What decision logs say, in sentences.

    Args:
        found: as the server answers.
    """
    told = {**found, **{name: ", ".join(found[name]) for name in ("contradicting", "reasons")}}
    yield _SAID.get(found["verdict"], found["verdict"]).format_map(told)
    if not found["decisions"]:
        return
    yield f"decisions looked at: {found['decisions']}; refused: {found['refused']}"
    for one in found["agents"]:
        known = f"known until {one['through']}" if one["through"] else "nothing known"
        doubts = f" ({', '.join(one['reasons'])})" if one["reasons"] else ""
        yield f"agent `{one['agent']}` in `{one['domain']}`: {known}{doubts}"
