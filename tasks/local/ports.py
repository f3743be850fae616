"""Loopback ports: find a free one, or say who must make room."""

from __future__ import annotations

import socket

from tasks.local.errors import LocalError

LOOPBACK = "127.0.0.1"


def free_port() -> int:
    """A port that nothing on loopback listens on at this moment."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


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
