"""Command line of the authority: `init` makes its keys once, `run` serves them.

`forget-audit` lets the audit go back, which a restored backup needs; `rotate-kek` and
`retire-kek` change what keys at rest are wrapped under; `request`, `install-root` and `sign-root`
are the authority's side of a root ceremony; `backup`, `restore` and `standby` keep the authority
from being lost; `journal` shows what it answered.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from itertools import islice
from pathlib import Path

from policyengine.bundles.roots import ROLES
from policyengine.primitives.rand import SYSTEM_RANDOM
from tasks.authority import journal
from tasks.authority.backups import backup, passphrase_of, restore
from tasks.authority.fence import NAME as FENCE_NAME
from tasks.authority.fence import Fence
from tasks.authority.lane import work_beside
from tasks.authority.operations import Operations
from tasks.authority.roots import (
    SELF_MADE,
    RootKeeper,
    install_root,
    pinned_file,
    request,
    sign_root,
)
from tasks.authority.server import AuthorityServer
from tasks.authority.standby import begin_epoch, follow
from tasks.authority.store import (
    StateError,
    create_state,
    forget_log,
    load_state,
    retire_store,
    rotate_store,
    signed_log,
    write_private,
)

PATIENCE = 5.0
"""Seconds that `run` waits for one that is just ending."""

log = logging.getLogger("portcullis.authority")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the process's exit status."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    try:
        return _COMMANDS[options.command](options)
    except (StateError, OSError) as error:
        print(error, file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tasks.authority")
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name: str, text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text)
        made.add_argument("--state", type=Path, required=True, help="folder, only for this user")
        return made

    init = command("init", "make the authority's keys, once")
    init.add_argument("--anchors", type=Path, required=True, help="file for the public keys")
    init.add_argument(
        "--key-program",
        type=shlex.split,
        default=[],
        metavar="COMMAND",
        help="program that keeps the key-encryption key (a KMS); without it a file does",
    )
    run = command("run", "answer on a Unix socket")
    run.add_argument("--socket", type=Path, required=True)
    asked = command("request", "write the public online keys for a root ceremony")
    asked.add_argument("--out", type=Path, required=True)
    asked.add_argument(
        "--fresh", nargs="+", choices=ROLES, default=[], help="roles that get a new key"
    )
    signed = command("sign-root", "sign a root as the holders of a self-made one")
    signed.add_argument("--root", type=Path, required=True)
    installed = command("install-root", "put a root that its holders signed into force")
    installed.add_argument("--root", type=Path, required=True)
    installed.add_argument(
        "--replace",
        action="store_true",
        help="instead of a self-made root that did not sign it; agents must be given the new one",
    )
    run.add_argument("--fence", type=Path, help="file that a standby reaches too; default: own")
    standby = command("standby", "follow another authority, and serve in its place when it ends")
    standby.add_argument("--socket", type=Path, required=True, help="the same as the other's")
    standby.add_argument("--follow", type=Path, required=True, help="the other's state folder")
    standby.add_argument("--fence", type=Path, required=True, help="the same as the other's")
    for serving in (run, standby):
        serving.add_argument(
            "--allow-self-made-root",
            action="store_true",
            help="start in production though no root ceremony was held",
        )
    kept = command("backup", "write keys and journal to a file, sealed under a passphrase")
    kept.add_argument("--to", type=Path, required=True)
    kept.add_argument("--passphrase-file", type=Path, required=True)
    again = command("restore", "put a backup into an empty folder")
    again.add_argument("--from", type=Path, required=True, dest="source")
    again.add_argument("--passphrase-file", type=Path, required=True)
    again.add_argument("--fence", type=Path, help="as for `run`")
    command("forget-audit", "sign an audit that goes back, after its database was restored")
    command("rotate-kek", "make another key-encryption key; keys that exist stay readable")
    retire = command("retire-kek", "destroy an old key-encryption key, once nothing is under it")
    retire.add_argument("number", type=int)
    journal = command("journal", "check or show what was answered")
    journal.add_argument("what", choices=("verify", "show"))
    journal.add_argument("--after", type=int, default=0, help="number of an entry")
    journal.add_argument("--limit", type=int, default=0, help="how many; 0 shows all")
    return parser


def _journal(options: argparse.Namespace) -> int:
    folder = options.state / journal.FOLDER
    if not journal.parts_of(folder):
        raise StateError(f"{options.state} holds no journal")
    if options.what == "verify":
        head = journal.verify(folder)
        print(f"the journal is whole: {head.size} entries, head {head.digest}")
        return 0
    shown = journal.lines(folder, after=options.after)
    for line in islice(shown, options.limit or None):
        print(json.dumps(line.entry, sort_keys=True))
    return 0


def _note(state: Path, op: str, **facts: object) -> None:
    """Write down what an operator did, beside what the authority answers."""
    journal.Journal(state, now=time.time).append({"op": op, "outcome": "done", **facts})


def _forget_audit(options: argparse.Namespace) -> int:
    signed = signed_log(load_state(options.state).folder)
    forget_log(options.state)
    _note(options.state, "audit.forgotten", size=signed.size)
    print(f"forgotten: an audit of {signed.size} entries; the next checkpoint begins anew")
    return 0


def _init(options: argparse.Namespace) -> int:
    created = create_state(options.state, SYSTEM_RANDOM, options.key_program)
    options.anchors.parent.mkdir(parents=True, exist_ok=True)
    write_private(options.anchors, pinned_file(created), mode=0o644)
    print(f"authority created; the root to pin is in {options.anchors}")
    print(f"beware: {SELF_MADE}")
    return 0


def _request(options: argparse.Namespace) -> int:
    write_private(options.out, request(load_state(options.state), options.fresh), mode=0o644)
    print(f"public online keys for the next root are in {options.out}")
    return 0


def _sign_root(options: argparse.Namespace) -> int:
    signed = sign_root(load_state(options.state), options.root.read_bytes())
    _note(options.state, "root.signed")
    write_private(options.root, signed, mode=0o644)
    print(f"{options.root} is signed by the holders of the self-made root")
    return 0


def _install_root(options: argparse.Namespace) -> int:
    data = options.root.read_bytes()
    root = install_root(load_state(options.state), data, replace=options.replace)
    _note(options.state, "root.installed", version=root.version)
    print(f"root {root.version} is in force; a running authority signs under it from now on")
    print("agents, clients and comparators follow as soon as they ask for their next lease")
    return 0


def _rotate_kek(options: argparse.Namespace) -> int:
    number = rotate_store(options.state, SYSTEM_RANDOM)
    _note(options.state, "kek.rotated", number=number)
    print(f"key-encryption key {number} wraps from now on")
    print("next: `manage.py rewrap_keys`, and then `retire-kek` for the old one")
    return 0


def _retire_kek(options: argparse.Namespace) -> int:
    retire_store(options.state, options.number)
    _note(options.state, "kek.retired", number=options.number)
    print(f"key-encryption key {options.number} is destroyed")
    return 0


def _allow_self_made(*, told: bool) -> None:
    """Outside development a self-made root is an oversight until somebody says otherwise."""
    if os.environ.get("PORTCULLIS_ENV", "production") == "production" and not told:
        raise StateError(f"{SELF_MADE}; or start with --allow-self-made-root")
    log.warning(SELF_MADE)


def _run(options: argparse.Namespace) -> int:
    fence = _fence(options)
    end = time.monotonic() + PATIENCE
    while not fence.take():
        if time.monotonic() > end:
            raise StateError(f"another authority serves under {fence.path}")
        time.sleep(0.1)
    with closing(fence):
        return _serve(options, fence)


def _standby(options: argparse.Namespace) -> int:
    asked = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: asked.set())
    fence = _fence(options)
    log.info("following")
    if not follow(options.follow, options.state, fence, asked.is_set):
        return 0
    log.info("taking over")
    with closing(fence):
        return _serve(options, fence)


def _fence(options: argparse.Namespace) -> Fence:
    options.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Fence(options.fence or options.state / FENCE_NAME)


def _serve(options: argparse.Namespace, fence: Fence) -> int:
    state = load_state(options.state)
    if RootKeeper(state).self_made:
        _allow_self_made(told=options.allow_self_made_root)
    # Before anything else is written: one that was overtaken must not add to its journal.
    epoch = begin_epoch(journal.Journal(options.state, now=time.time), fence)
    operations = Operations(state, lane=work_beside())
    server = AuthorityServer(options.socket, operations)
    # `shutdown` waits for the serving loop, which runs in this very thread: hand it to another.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
    log.info("answering in epoch %d", epoch)
    try:
        server.serve_forever(poll_interval=0.2)
    finally:
        server.server_close()
        operations.close()
    log.info("stopped")
    return 0


def _backup(options: argparse.Namespace) -> int:
    head = backup(options.state, options.to, passphrase_of(options.passphrase_file))
    print(f"backed up to {options.to}: journal of {head.size} entries, head {head.digest}")
    return 0


def _restore(options: argparse.Namespace) -> int:
    secret = passphrase_of(options.passphrase_file)
    fence = options.fence or options.state / FENCE_NAME
    manifest = restore(options.state, options.source, secret, fence)
    print(f"restored the authority of {manifest['made']}: journal of {manifest['head']} entries")
    return 0


_COMMANDS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "init": _init,
    "run": _run,
    "request": _request,
    "sign-root": _sign_root,
    "install-root": _install_root,
    "forget-audit": _forget_audit,
    "rotate-kek": _rotate_kek,
    "retire-kek": _retire_kek,
    "journal": _journal,
    "standby": _standby,
    "backup": _backup,
    "restore": _restore,
}

if __name__ == "__main__":
    sys.exit(main())
