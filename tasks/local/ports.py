"""Loopback ports: find a free one, or say who must make room."""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import tempfile
from functools import cache
from pathlib import Path

from tasks.local.errors import LocalError

LOOPBACK = "127.0.0.1"
_LEAST = 10_000
_TRIES = 1000
_given: set[int] = set()


def free_port() -> int:
    """A port that nothing on loopback listens on, kept for whoever asked as long as it runs.

    The system gives it to no connection: a server that ends there and starts again finds it free,
    however many try to reach it meanwhile. No process of this user is given it a second time.

    Raises:
        LocalError: none is free.
    """
    for _ in range(_TRIES):
        port = _LEAST + secrets.randbelow(_given_to_connections() - _LEAST)
        if port not in _given and not in_use(port) and _reserved(port):
            _given.add(port)
            return port
    raise LocalError("no port is free on this machine: stop what was left running on it")


@cache
def _given_to_connections() -> int:
    """The least port that the system gives to connections by itself (Linux)."""
    try:
        text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
    except OSError:
        return 32_768
    least = int(text.split()[0])
    return least if least > 2 * _LEAST else 32_768


@cache
def _reservations() -> int:
    name = Path(tempfile.gettempdir()) / f"portcullis-ports-{os.getuid()}"
    return os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _reserved(port: int) -> bool:
    """Take a port among this user's processes: a byte of a file, locked until this one ends."""
    try:
        fcntl.lockf(_reservations(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


def in_use(port: int) -> bool:
    """Whether something already listens on the port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return True
        return False


def require_free(port: int, *, what: str, how: str) -> None:
    """Raise LocalError with advice when the port is taken.

    `what` names the part that wants the port and `how` the way to choose another one.
    """
    if in_use(port):
        raise LocalError(
            f"port {port}, which {what} wants, is in use by another program on this machine. "
            f"Stop that program, or choose another port: {how}"
        )
