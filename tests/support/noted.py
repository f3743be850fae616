"""Publishing and reading that is written down as it happens, for `histories.py` to judge."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from brokers.client import BufferFull, Publisher, Refused, Subscriber, TimedOut
from tests.support.histories import History


def publish_noted(
    publisher: Publisher,
    name: str,
    event_type: str,
    readings: Iterable[Mapping[str, Any]],
    history: History,
    *,
    stop: threading.Event,
    pause: float,
    patience: float,
) -> None:
    """Publish until `stop` is set, then wait for answers that are owed.

    Args:
        publisher: whose, under `name`.
        readings: values of each event; `id` names it.
        history: takes what is asked and what is told.
        pause: seconds between two events.
        patience: seconds to wait for the answers at the end.
    """
    under_way: dict[str, Any] = {}
    for values in readings:
        if stop.wait(pause):
            break
        _publish_one(publisher, name, event_type, dict(values), history, under_way)
    end = time.monotonic() + patience
    while under_way and time.monotonic() < end:
        time.sleep(0.1)


def _publish_one(
    publisher: Publisher,
    name: str,
    event_type: str,
    values: dict[str, Any],
    history: History,
    under_way: dict[str, Any],
) -> None:
    event = values["id"]
    history.note("published", who=name, event=event, type=event_type, values=values)
    try:
        handle = publisher.publish_nowait(event_type, values, timeout=5)
    except (Refused, BufferFull) as error:
        history.note("refused", event=event, reason=_reason(error))
        return

    def answered(done: Future[Any]) -> None:
        error = done.exception()
        if error is None:
            history.note("accepted", event=event, publication=done.result().id)
        elif not isinstance(error, TimedOut):  # which says that nobody knows
            history.note("refused", event=event, reason=_reason(error))
        under_way.pop(event, None)

    under_way[event] = handle  # its parts are sent again for as long as somebody holds it
    handle.future.add_done_callback(answered)


def _reason(error: BaseException) -> str:
    """One word where an agent said it, else what went wrong here."""
    return error.reason if isinstance(error, Refused) else str(error)


def read_noted(
    subscriber: Subscriber, name: str, history: History, *, end: threading.Event
) -> None:
    """Note what arrives until `end` is set."""
    while not end.is_set():
        event = subscriber.next_event(0.5)
        if event is not None:
            values = dict(event.attributes)
            history.note("delivered", who=name, event=values["id"], values=values)
