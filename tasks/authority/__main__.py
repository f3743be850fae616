"""Command line of the authority: `init` makes its keys once, `run` serves them.

`forget-audit` lets the audit go back, which a restored backup needs.
"""

from __future__ import annotations

import argparse
import json
import logging
import signal
import sys
import threading
from pathlib import Path

from policyengine.primitives.rand import SYSTEM_RANDOM
from tasks.authority.operations import Operations
from tasks.authority.server import AuthorityServer
from tasks.authority.store import (
    StateError,
    create_state,
    forget_log,
    load_state,
    signed_log,
    write_private,
)

log = logging.getLogger("portcullis.authority")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the process's exit status."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    try:
        if options.command == "init":
            return _init(options.state, options.anchors)
        if options.command == "forget-audit":
            return _forget_audit(options.state)
        return _run(options.state, options.socket)
    except (StateError, FileExistsError) as error:
        print(error, file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tasks.authority")
    commands = parser.add_subparsers(dest="command", required=True)
    init = commands.add_parser("init", help="make the authority's keys, once")
    init.add_argument("--state", type=Path, required=True, help="folder, only for this user")
    init.add_argument("--anchors", type=Path, required=True, help="file for the public keys")
    run = commands.add_parser("run", help="answer on a Unix socket")
    run.add_argument("--state", type=Path, required=True)
    run.add_argument("--socket", type=Path, required=True)
    forget = commands.add_parser(
        "forget-audit", help="sign an audit that goes back, after its database was restored"
    )
    forget.add_argument("--state", type=Path, required=True)
    return parser


def _forget_audit(state: Path) -> int:
    signed = signed_log(load_state(state).folder)
    forget_log(state)
    print(f"forgotten: an audit of {signed.size} entries; the next checkpoint begins anew")
    return 0


def _init(state: Path, anchors: Path) -> int:
    created = create_state(state, SYSTEM_RANDOM)
    anchors.parent.mkdir(parents=True, exist_ok=True)
    document = json.dumps(created.anchors().to_json(), indent=2, sort_keys=True) + "\n"
    write_private(anchors, document.encode(), mode=0o644)
    print(f"authority created; public keys in {anchors}")
    return 0


def _run(state: Path, path: Path) -> int:
    server = AuthorityServer(path, Operations(load_state(state)))
    # `shutdown` waits for the serving loop, which runs in this very thread: hand it to another.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
    log.info("answering")
    try:
        server.serve_forever(poll_interval=0.2)
    finally:
        server.server_close()
    log.info("stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
