"""Lanes of a play that go on at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence


def together(work: Sequence[Callable[[], None]], *, end: threading.Event) -> None:
    """Do all of it at the same time, each in a thread of its own, until all is over.

    Args:
        work: what to do.
        end: set where one of it fails, so that the others stop.

    Raises:
        BaseException: what failed first.
    """
    failed: list[BaseException] = []

    def run(one: Callable[[], None]) -> None:
        try:
            one()
        except BaseException as error:  # noqa: BLE001 - raised again below
            failed.append(error)
            end.set()

    threads = [threading.Thread(target=run, args=(one,)) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
