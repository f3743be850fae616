"""`python -m tasks.local.activemq`: one development broker on loopback until Ctrl-C or SIGTERM."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from pathlib import Path

from tasks.local.activemq import ACCOUNTS, ActiveMQ, write_brokers_file
from tasks.local.errors import LocalError
from tasks.local.layout import ROOT

_LOOK_SECONDS = 0.5


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tasks.local.activemq",
        description="Start a private ActiveMQ for development; its messages stay in its folder.",
    )
    parser.add_argument("--name", default="dev", help="the overlay it carries")
    parser.add_argument("--folder", type=Path, help="its folder (var/activemq/NAME)")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    options = parser.parse_args(arguments)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    folder = options.folder or ROOT / "var" / "activemq" / options.name
    broker = ActiveMQ(folder, name=options.name, stomp_port=options.port)
    try:
        broker.start()
        return _serve(broker, stop)
    except LocalError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        broker.stop()


def _serve(broker: ActiveMQ, stop: threading.Event) -> int:
    for account in ACCOUNTS:
        path = broker.folder / f"brokers-{account}.json"
        write_brokers_file(path, {broker.name: broker.entry(account)}, control=broker.name)
        print(f"{account}: {path}")
    print(f"ActiveMQ `{broker.name}` answers on {broker.host}:{broker.port}", flush=True)
    while not stop.wait(_LOOK_SECONDS):
        if not broker.running:
            print(f"ActiveMQ ended by itself; see {broker.log}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
