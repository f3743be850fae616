"""`python -m brokers.comparator init|run`."""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import threading
from pathlib import Path

from brokers.adapters.brokers_file import ConfigurationError
from brokers.adapters.files import Keys, StateError, private_folder
from brokers.adapters.logs import configure
from brokers.comparator.config import ComparatorConfig
from brokers.comparator.service import ComparatorService

_FAILED = 2


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        return _init(options) if options.command == "init" else _run(options)
    except (ConfigurationError, StateError, OSError) as error:
        print(f"brokers.comparator: {error}", file=sys.stderr)
        return _FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m brokers.comparator")
    commands = parser.add_subparsers(dest="command", required=True)
    init = commands.add_parser("init", help="make a comparator's keys and print the public ones")
    init.add_argument("--name", required=True)
    init.add_argument("--state", type=Path, required=True)
    run = commands.add_parser("run", help="run a comparator in the foreground")
    run.add_argument("--config", type=Path, required=True)
    return parser


def _init(options: argparse.Namespace) -> int:
    if not re.fullmatch(r"[a-z0-9-]{1,64}", options.name):
        raise ConfigurationError(f"`{options.name}` is not a name (a-z, 0-9 and -)")
    keys = Keys.create(private_folder(options.state) / "keys.json")
    print(json.dumps({"name": options.name, **keys.public()}, sort_keys=True))
    return 0


def _run(options: argparse.Namespace) -> int:
    config = ComparatorConfig.load(options.config)
    configure(config.log_level)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    comparator = ComparatorService(config)
    comparator.start()
    while not stop.wait(0.5):
        pass
    comparator.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
