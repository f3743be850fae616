"""All publishers, or all subscribers, of a fault test as a process, each with its own history.

`python -m tests.support.fault_client publish SEED CAST FOLDER` or `subscribe SEED CAST FOLDER`,
where CAST is the numbers of a `Cast` as JSON and FOLDER has a profile for each name. They go on
until SIGTERM; publishers wait then for the answers that they are owed.
"""

from __future__ import annotations

import itertools
import json
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from brokers.client import Publisher, Refused, Subscriber
from tests.support.fault_domain import TYPE, Cast
from tests.support.histories import History
from tests.support.noted import publish_noted, read_noted

_STOP = threading.Event()
_PAUSE = 0.5
_PATIENCE = 120.0
_OWED = 10.0
"""Seconds to wait at the end for answers; who was revoked gets none."""
_ASKING = 10.0


def history_of(profile: Path) -> Path:
    """Where a client with this profile writes its history."""
    return profile / "history.jsonl"


def publish(cast: Cast, seed: str, folder: Path, name: str) -> None:
    """Publish readings by their numbers."""
    history = History(history_of(folder / name))
    with Publisher(folder / name) as publisher:
        publisher.wait_ready(_PATIENCE)
        publish_noted(
            publisher, name, TYPE, _readings(cast, seed, name), history,
            stop=_STOP, pause=_PAUSE, patience=_OWED,
        )  # fmt: skip


def _readings(cast: Cast, seed: str, name: str) -> Iterator[dict[str, Any]]:
    return (cast.reading(seed, name, number) for number in itertools.count(1))


def subscribe(cast: Cast, folder: Path, name: str) -> None:
    """Subscribe, and note what arrives."""
    history = History(history_of(folder / name))
    late = name in cast.names("late")
    with Subscriber(folder / name) as subscriber:
        _ask(subscriber)
        if late:
            _first(subscriber, name, history)
        history.note("subscribed", who=name, type=TYPE)
        read_noted(subscriber, name, history, end=_STOP)


def _ask(subscriber: Subscriber) -> None:
    while not _STOP.is_set():
        try:
            subscriber.subscribe(TYPE, timeout=_ASKING)
        except Refused:
            _STOP.wait(1.0)
        else:
            return


def _first(subscriber: Subscriber, name: str, history: History) -> None:
    """Somebody without rights yet may ask already: from the first event on it must miss none."""
    while not _STOP.is_set():
        event = subscriber.next_event(0.5)
        if event is not None:
            values = dict(event.attributes)
            history.note("delivered", who=name, event=values["id"], values=values)
            return


def main(arguments: list[str]) -> None:
    """Run the command line."""
    signal.signal(signal.SIGTERM, lambda *_: _STOP.set())
    verb, seed, text, place = arguments
    cast, folder = Cast(**json.loads(text)), Path(place)
    names = cast.names("meter") if verb == "publish" else cast.subscribers
    act = partial(publish, cast, seed) if verb == "publish" else partial(subscribe, cast)
    with ThreadPoolExecutor(len(names)) as pool:
        for done in [pool.submit(act, folder, name) for name in names]:
            done.result()


if __name__ == "__main__":
    main(sys.argv[1:])
