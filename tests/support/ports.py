"""Ports on loopback, and waiting."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from tasks.local.ports import free_port

__all__ = ["answers", "free_port", "wait_until"]


def answers(port: int) -> bool:
    """Say whether somebody accepts connections on a loopback port."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def wait_until(condition: Callable[[], bool], *, seconds: float, what: str) -> None:
    """Wait for a condition.

    Raises:
        TimeoutError: it did not come true in time; the message names `what`.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds} s for {what}")
        time.sleep(0.05)
