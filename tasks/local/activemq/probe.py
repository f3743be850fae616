"""One STOMP CONNECT over a plain socket: is a broker there, and does it let this account in?"""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.local.activemq.broker import TlsClient


def connected(
    host: str,
    port: int,
    *,
    login: str,
    passcode: str,
    tls: TlsClient | None = None,
    timeout: float = 2.0,
) -> bool:
    """Whether the broker answers CONNECT with CONNECTED within `timeout` seconds."""
    frame = f"CONNECT\naccept-version:1.2\nhost:{host}\nlogin:{login}\npasscode:{passcode}\n\n\0"
    try:
        with (
            socket.create_connection((host, port), timeout=timeout) as plain,
            _wrap(plain, host, tls) as link,
        ):
            link.sendall(frame.encode())
            welcome = link.recv(4096).startswith(b"CONNECTED")
            if welcome:
                link.sendall(b"DISCONNECT\n\n\0")
            return welcome
    except OSError:
        return False


def _wrap(plain: socket.socket, host: str, tls: TlsClient | None) -> socket.socket:
    if tls is None:
        return plain
    context = ssl.create_default_context(cafile=tls.ca)
    context.load_cert_chain(tls.certificate, tls.key)
    return context.wrap_socket(plain, server_hostname=host)
