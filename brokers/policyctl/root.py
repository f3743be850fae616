"""`root`: the ceremony of the root of trust, without any server.

Each holder makes a key on a machine of their own. Somebody drafts a root, which goes from
holder to holder as a file; each looks at what it says and signs. The file that enough of them
signed goes to the authority, and to whoever pins it.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from brokers.policyctl import files, holders
from brokers.policyctl.errors import Exit, Stop
from brokers.policyctl.holders import Passphrase
from brokers.policyctl.output import Output
from policyengine.bundles import (
    Root,
    SignedRoot,
    decode_root,
    encode_root,
    open_request,
    open_root,
    verify_next,
)
from policyengine.bundles.roots import ROLES, draft
from policyengine.errors import InputError, RejectedError

DAY = 86_400


def key(out: Output, args: argparse.Namespace) -> Exit:
    """Make a root holder's key on this machine."""
    public = holders.make(args.file, Passphrase(args.passphrase_file))
    out.text(f"holder {holders.fingerprint(public)}")
    out.text(f"{args.file} stays with its holder; {args.file}.pub goes to whoever drafts the root")
    return Exit.OK


def init(out: Output, args: argparse.Namespace) -> Exit:
    """Draft the first root, for its holders to sign."""
    online: dict[str, Any] = {**_request(args.request)}
    secrets: list[Path | None] = [*args.passphrase_file]
    if secrets and len(secrets) != len(args.new_holder):
        raise Stop(Exit.ERROR, "name one --passphrase-file for each --new-holder, or none")
    _free(args.out)
    made = [
        holders.make(path, Passphrase(secret))
        for path, secret in zip(
            args.new_holder, secrets or [None] * len(args.new_holder), strict=True
        )
    ]
    public = [*map(holders.read_public, args.holder), *made]
    now = int(time.time())
    return _draft(
        out,
        args.out,
        lambda: Root(
            version=1,
            issued=now,
            expires=now + args.days * DAY,
            threshold=args.threshold,
            holders=tuple(public),
            **online,
        ),
    )


def rotate(out: Output, args: argparse.Namespace) -> Exit:
    """Draft the root that follows one in force, for the holders of both to sign."""
    current = _complete(args.root)
    now = int(time.time())
    changes: dict[str, Any] = {} if args.request is None else _request(args.request)
    if args.holder:
        changes["holders"] = tuple(map(holders.read_public, args.holder))
    if args.threshold is not None:
        changes["threshold"] = args.threshold
    _free(args.out)
    return _draft(
        out,
        args.out,
        lambda: replace(
            current,
            version=current.version + 1,
            issued=now,
            expires=now + args.days * DAY,
            reset=tuple(args.reset),
            **changes,
        ),
    )


def sign(out: Output, args: argparse.Namespace) -> Exit:
    """Sign a root as one of its holders, after a look at what it says."""
    signed, root = _read(args.root)
    before = None if args.after is None else _complete(args.after)
    public = holders.read_public(args.key)
    known = {*root.holders, *(() if before is None else before.holders)}
    if public not in known:
        raise Stop(
            Exit.ERROR,
            f"{args.key} is no holder's key of root {root.version}; a holder of the root before "
            "signs with --after",
        )
    _tell(out, _described(signed, root, before))
    if not args.yes and not _agreed(f"sign root {root.version}?"):
        raise Stop(Exit.ERROR, "nothing was signed")
    made = signed.signed_by(holders.unlock(args.key, Passphrase(args.passphrase_file)))
    files.write(args.out or args.root, encode_root(made))
    missing = _missing(made, root, before)
    out.text(missing or "signed by enough holders", "yellow" if missing else "green")
    return Exit.OK


def show(out: Output, args: argparse.Namespace) -> Exit:
    """Show what a root says and who signed it; exit code 4 while signatures are missing."""
    signed, root = _read(args.root)
    before = None if args.after is None else _complete(args.after)
    document = _described(signed, root, before)
    if out.for_people:
        _tell(out, document)
        missing = document["missing"]
        out.text(missing or "signed by enough holders", "yellow" if missing else "green")
    else:
        out.data(document)
    if not document["missing"] and before is not None:
        try:
            verify_next(before, signed)
        except RejectedError as error:
            raise Stop(Exit.REFUSED, f"it does not follow {args.after}: {error.message}") from error
    return Exit.WAITING if document["missing"] else Exit.OK


def _draft(out: Output, path: Path, make: Any) -> Exit:
    try:
        root: Root = make()
    except InputError as error:
        raise Stop(Exit.ERROR, f"no root can say this: {error.message}") from error
    signed = draft(root)
    files.write(path, encode_root(signed))
    _tell(out, _described(signed, root, None))
    out.text(f"next: each holder runs `policyctl root sign {path} --key FILE`")
    return Exit.OK


def _described(signed: SignedRoot, root: Root, before: Root | None) -> dict[str, Any]:
    by = signed.signers([*root.holders, *(() if before is None else before.holders)])
    return {
        "version": root.version,
        "fingerprint": signed.fingerprint,
        "issued": _moment(root.issued),
        "expires": _moment(root.expires),
        "threshold": root.threshold,
        "holders": [
            {"holder": holders.fingerprint(each), "signed": each in by} for each in root.holders
        ],
        "holders_before": [
            {"holder": holders.fingerprint(each), "signed": each in by}
            for each in (() if before is None else before.holders)
        ],
        "online": {role: holders.fingerprint(getattr(root, role)) for role in ROLES},
        "reset": list(root.reset),
        "missing": _missing(signed, root, before),
    }


def _missing(signed: SignedRoot, root: Root, before: Root | None) -> str:
    short = [
        f"{each.threshold - count} more of the holders of root {each.version}"
        for each in ([] if before is None else [before]) + [root]
        if (count := len(signed.signers(each.holders))) < each.threshold
    ]
    return f"not signed yet by {' and '.join(short)}" if short else ""


def _tell(out: Output, document: dict[str, Any]) -> None:
    out.text(f"root {document['version']}, from {document['issued']} to {document['expires']}")
    out.text(f"fingerprint {document['fingerprint']}")
    out.text(f"{document['threshold']} of these holders must sign:")
    for name in ("holders", "holders_before"):
        if name == "holders_before" and document[name]:
            out.text("and of those of the root before:")
        for each in document[name]:
            out.text(f"  {each['holder']}  {'signed' if each['signed'] else '-'}")
    out.text("it names these online keys of the authority:")
    for role, found in document["online"].items():
        out.text(f"  {role:<10} {found}")
    if document["reset"]:
        names = ", ".join(document["reset"])
        out.text(f"it lets revisions of these domains go back: {names}", "yellow")


def _agreed(question: str) -> bool:
    if not sys.stdin.isatty():
        raise Stop(Exit.ERROR, "nobody is here to agree: look at it with `root show`, then --yes")
    return input(f"{question} [y/N] ").strip().lower() in {"y", "yes"}


def _request(path: Path) -> dict[str, bytes]:
    try:
        return open_request(_bytes(path)).online()
    except RejectedError as error:
        raise Stop(Exit.ERROR, f"{path}: {error.message}") from error


def _read(path: Path) -> tuple[SignedRoot, Root]:
    try:
        signed = decode_root(_bytes(path))
        return signed, signed.claimed()
    except RejectedError as error:
        raise Stop(Exit.ERROR, f"{path}: {error.message}") from error


def _complete(path: Path) -> Root:
    """A root that enough of its holders signed."""
    signed, _ = _read(path)
    try:
        return open_root(signed)
    except RejectedError as error:
        raise Stop(Exit.ERROR, f"{path}: {error.message}") from error


def _bytes(path: Path) -> bytes:
    return b"".join(data for _, data in files.read([str(path)]))


def _free(path: Path) -> None:
    if path.exists():
        raise Stop(Exit.ERROR, f"{path} is there already")


def _moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def add(commands: argparse._SubParsersAction[Any], command: Any) -> None:
    """Put the commands below `root`.

    Args:
        commands: where.
        command: makes one: (below, name, function, offline=True).
    """

    def one(name: str, run: Any) -> argparse.ArgumentParser:
        made: argparse.ArgumentParser = command(commands, name, run, offline=True)
        return made

    made = one("key", key)
    made.add_argument("file", type=Path, help="new file, encrypted under a passphrase")
    first, later = one("init", init), one("rotate", rotate)
    later.add_argument("root", type=Path, help="the root in force, as its holders signed it")
    first.add_argument(
        "--new-holder",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="make a holder's key here, in this new file",
    )
    first.add_argument(
        "--passphrase-file",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="of each --new-holder, in turn; asked for otherwise",
    )
    later.add_argument(
        "--reset",
        action="append",
        default=[],
        metavar="DOMAIN",
        help="let revisions of the domain go back; nothing else does",
    )
    for each, threshold in ((first, 2), (later, None)):
        each.add_argument(
            "--request",
            type=Path,
            required=each is first,
            metavar="FILE",
            help="what `python -m tasks.authority request` wrote",
        )
        each.add_argument(
            "--holder",
            type=Path,
            action="append",
            default=[],
            metavar="FILE",
            help="a holder's public key, once for each",
        )
        each.add_argument("--threshold", type=int, default=threshold, help="how many must sign")
        each.add_argument("--days", type=int, default=365, help="how long it holds; 365")
        each.add_argument("--out", type=Path, required=True, metavar="FILE")
    signing, shown = one("sign", sign), one("show", show)
    for each in (signing, shown):
        each.add_argument("root", type=Path)
        each.add_argument("--after", type=Path, metavar="FILE", help="the root before")
    signing.add_argument("--key", type=Path, required=True, help="the holder's key")
    signing.add_argument("--out", type=Path, help="where to; the same file if not given")
    signing.add_argument("-y", "--yes", action="store_true", help="do not ask")
    for each in (made, signing):
        each.add_argument("--passphrase-file", type=Path, metavar="FILE")
