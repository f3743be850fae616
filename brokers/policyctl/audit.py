"""`audit`: read the audit, keep it as a file, and check such a file without the server."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from brokers.policyctl import files
from brokers.policyctl.api import Api
from brokers.policyctl.errors import Exit, Stop
from brokers.policyctl.output import Output
from brokers.policyctl.questions import query
from policyengine.errors import PortcullisError
from policyengine.primitives.checkpoints import (
    Checkpoint,
    open_checkpoint,
    parse_note,
    parse_verifier_key,
)
from policyengine.primitives.merkle import Frontier, leaf_hash

FILTERS = (
    "domain",
    "actor",
    "action",
    "object_type",
    "object_name",
    "person",
    "text",
    "since",
    "until",
)
COLUMNS = ("sequence", "at", "actor", "action", "domain", "object_name", "change_set")
FORMAT = 1
MAX_LINE = 2**26
SHOWN = 100


def entries(api: Api, out: Output, args: argparse.Namespace) -> Exit:
    """List entries, the newest first."""
    found: list[dict[str, Any]] = []
    for page in api.pages("/audit", query(args, FILTERS)):
        found += page
        if len(found) >= args.limit:
            del found[args.limit :]
            break
    if out.for_people:
        out.table(COLUMNS, [[entry.get(name) for name in COLUMNS] for entry in found])
    else:
        out.data(found)
    return Exit.OK


def checkpoints(api: Api, out: Output, args: argparse.Namespace) -> Exit:
    """List what the trusted authority signed about the log, the newest first."""
    found = next(api.pages("/audit/checkpoints", [("limit", str(args.limit))]))
    if out.for_people:
        out.table(("size", "at", "root"), [[e["size"], e["at"], e["root"]] for e in found])
    else:
        out.data(found)
    return Exit.OK


def export(api: Api, out: Output, args: argparse.Namespace) -> Exit:
    """Keep entries as JSON lines, the last signed checkpoint after them."""
    with out.progress("exporting", size=True) as show:
        answer = api.get("/audit/export", query(args, FILTERS), show)
    if args.file is None:
        out.raw(answer.body.decode())
    else:
        files.write(args.file, answer.body)
    return Exit.OK


# -- checking a file ---------------------------------------------------------------------------


@dataclass
class Report:
    """What became of checking a file.

    Args:
        entries: how many entries it holds.
        sealed: how many of them speak of a person: of those the ciphertext is checked, not what
            is shown beside it.
        problems: what is wrong.
        unchecked: what the file alone cannot tell.
        checkpoint: the signed size and root that the entries were checked against.
    """

    entries: int = 0
    sealed: int = 0
    problems: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    checkpoint: Checkpoint | None = None

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "whole": not self.problems and not self.unchecked,
            "entries": self.entries,
            "sealed": self.sealed,
            "checkpoint": None if self.checkpoint is None else self.checkpoint.size,
            "problems": self.problems,
            "unchecked": self.unchecked,
        }


def verify(out: Output, args: argparse.Namespace) -> Exit:
    """Check an exported file against its signed checkpoint; asks no server."""
    key = None if args.key is None else _key(args.key)
    try:
        size = args.file.stat().st_size
        with args.file.open("rb") as file, out.progress("checking", total=size, size=True) as show:
            report = check(_documents(file, show), key)
    except OSError as error:
        raise Stop(Exit.ERROR, f"{args.file} cannot be read: {error.strerror}") from error
    if not out.for_people:
        out.data(report.to_json())
    else:
        _tell(out, report)
    return Exit.OK if report.to_json()["whole"] else Exit.ERROR


def _tell(out: Output, report: Report) -> None:
    for line in report.problems[:SHOWN]:
        out.text(line, "red")
    if len(report.problems) > SHOWN:
        out.text(f"and {len(report.problems) - SHOWN} more", "red")
    for line in report.unchecked:
        out.text(f"not checked: {line}", "yellow")
    if not report.problems and not report.unchecked and report.checkpoint is not None:
        out.text(
            f"{report.entries} entries are whole, as signed at {report.checkpoint.time}", "green"
        )


def check(documents: Iterator[tuple[int, Any]], key: tuple[str, bytes] | None) -> Report:
    """Compare entries with their leaves, and all of them with the checkpoint after them.

    Args:
        documents: number of the line and what stands there.
        key: origin and public key that checkpoints verify with, None to trust the file's own.
    """
    report = Report()
    leaves: list[bytes] = []
    last: Mapping[str, Any] | None = None
    gap = False
    for number, document in documents:
        if last is not None:
            report.problems.append(f"line {number}: something stands after the checkpoint")
            break
        if not isinstance(document, dict):
            report.problems.append(f"line {number}: this is no entry")
        elif "checkpoint" in document:
            last = document
        else:
            gap = _entry(report, leaves, number, document) or gap
    if last is None:
        report.problems.append("the file breaks off: no checkpoint ends it")
    else:
        _against(report, leaves, last, key, gap=gap)
    return report


def _entry(report: Report, leaves: list[bytes], number: int, document: Mapping[str, Any]) -> bool:
    """Check one entry; whether entries are missing before it."""
    report.entries += 1
    try:
        computed = leaf(document)
        stated = bytes.fromhex(document["leaf"])
        sequence = int(document["sequence"])
    except (KeyError, TypeError, ValueError):
        report.problems.append(f"line {number}: this is no entry")
        return False
    report.sealed += document["person"] is not None
    if computed != stated:
        report.problems.append(f"line {number}: entry {sequence} was changed")
    leaves.append(computed)
    return sequence != len(leaves)


def leaf(entry: Mapping[str, Any]) -> bytes:
    """The leaf of an exported entry, RFC 6962's hash over all its fields.

    Of an entry that speaks of a person the ciphertext is hashed and not what is shown.
    """
    sealed = entry["person"] is not None
    body = {
        "format": FORMAT,
        "sequence": entry["sequence"],
        "at": entry["at"],
        "actor": entry["actor_pseudonym"],
        "source": entry["source"],
        "change_set": entry["change_set"],
        "action": entry["action"],
        "domain": entry["domain"],
        "object_type": entry["object_type"],
        "object_id": entry["object_id"],
        "object_name": "" if sealed else entry["object_name"],
        "before": None if sealed else entry["before"],
        "after": None if sealed else entry["after"],
        "person": entry["person"],
        "sealed": entry["sealed"],
    }
    text = json.dumps(
        body, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return leaf_hash(text.encode())


def _against(
    report: Report,
    leaves: list[bytes],
    last: Mapping[str, Any],
    key: tuple[str, bytes] | None,
    *,
    gap: bool,
) -> None:
    checkpoint = _checkpoint(report, last, key)
    if checkpoint is None:
        return
    report.checkpoint = checkpoint
    if key is None:
        report.unchecked.append("who signed the checkpoint: name the verifier key with --key")
    if gap or len(leaves) < checkpoint.size:
        report.unchecked.append(
            "the root: the file holds some entries only; export without filters to check it"
        )
        return
    tree = Frontier()
    for each in leaves[: checkpoint.size]:
        tree.append(each)
    if tree.root() != checkpoint.root:
        report.problems.append("the entries are not those that were signed: the roots differ")
    younger = len(leaves) - checkpoint.size
    if younger:
        report.unchecked.append(f"{younger} entries are younger than the signed checkpoint")


def _checkpoint(
    report: Report, last: Mapping[str, Any], key: tuple[str, bytes] | None
) -> Checkpoint | None:
    held = last["checkpoint"]
    if held is None:
        report.unchecked.append("nothing was signed yet")
        return None
    try:
        return _signed(str(held["note"]), key)
    except (KeyError, TypeError):
        report.problems.append("the checkpoint cannot be read")
    except PortcullisError as error:
        report.problems.append(f"the checkpoint does not hold: {error}")
    return None


def _signed(note: str, key: tuple[str, bytes] | None) -> Checkpoint:
    return parse_note(note)[0] if key is None else open_checkpoint(note, *key)


def _documents(file: IO[bytes], show: Any) -> Iterator[tuple[int, Any]]:
    done = 0
    for number, line in enumerate(iter(lambda: file.readline(MAX_LINE), b""), start=1):
        done += len(line)
        show(done)
        try:
            yield number, json.loads(line)
        except (ValueError, RecursionError):
            yield number, None


def _key(path: Path) -> tuple[str, bytes]:
    try:
        return parse_verifier_key(path.read_text(encoding="ascii").strip())
    except OSError as error:
        raise Stop(Exit.ERROR, f"{path} cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, PortcullisError) as error:
        raise Stop(Exit.ERROR, f"{path} holds no verifier key") from error
