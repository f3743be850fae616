"""Sample traffic for `make run`: real flights and heating telemetry, slowly, for ever."""

from __future__ import annotations

import itertools
import json
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tasks.local import samples
from tasks.local.clients import Clients, Refused, Wish
from tasks.local.layout import Layout, write_private
from tasks.local.samples import SampleEvent

SECONDS_BETWEEN = 0.5
_WIDEST = {"heating": "Telemetry", "flights": "Flight"}


def run(var: Path) -> int:
    """Publish until SIGTERM; counts stand in run/traffic.json."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    layout = Layout(var.resolve(), 0)
    clients = Clients(layout, samples.organisations())
    try:
        _open(clients, stop)
        _publish(clients, layout.run / "traffic.json", stop)
    finally:
        clients.close()
    return 0


def _open(clients: Clients, stop: threading.Event) -> None:
    """Connect and subscribe; somebody whom a manager has revoked stays without."""
    clients.connect()
    for name, client in clients.everybody():
        while not stop.is_set():
            try:
                client.wait_ready(5.0)
                break
            except Refused as error:
                if error.reason != "not-ready" or clients.ready_count():
                    _say(f"{'/'.join(name)}: {error}")
                    break
    for name in clients.inboxes:
        try:
            clients.subscribe({name: [Wish(_WIDEST[name[0]])]})
        except Refused as error:
            _say(f"{'/'.join(name)} cannot subscribe: {error}")


def _publish(clients: Clients, status: Path, stop: threading.Event) -> None:
    counts: Counter[str] = Counter(published=0, refused=0)
    for event in _endless():
        if stop.wait(SECONDS_BETWEEN):
            return
        try:
            publisher = clients.publishers[event.domain, event.publisher]
            publisher.publish(event.type, event.values, timeout=20.0)
            counts["published"] += 1
        except (Refused, KeyError) as error:
            # A manager may have changed a policy: that is what this set-up is for.
            counts["refused"] += 1
            _say(f"{event.domain}/{event.publisher} {event.type}: {error}")
        counts["received"] = clients.received()
        write_private(status, json.dumps(counts))


def _endless() -> Iterator[SampleEvent]:
    """Three flights, then one reading, through January 2013 and then again."""
    homes = samples.consumers(samples.organisations()["heating"])
    readings = (event for hour in itertools.count() for event in samples.telemetry(homes, hour))
    for number in itertools.cycle(range(1, 32)):
        for position, event in enumerate(samples.day(1, number), start=1):
            yield event
            if position % 3 == 0:
                yield next(readings)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
