"""One STOMP connection on stomp.py, with what stomp.py 9 gets wrong put right.

stomp.py leaves Nagle on, misses end-of-file over TLS (it spins while `send` succeeds),
bounds neither its receive buffer nor a blocked send, and dies when a listener raises.
A session lives until its connection is lost and is never used again; mending is the
transport's business (`stomp.py` beside this file), outside of any listener.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import stomp
import stomp.connect
import stomp.exception
import stomp.protocol
import stomp.transport

from brokers.adapters.brokers_file import BrokerConfig
from brokers.ports import Outgoing, TransportError

CONNECT_SECONDS = 10.0
SEND_SECONDS = 30
MAX_FRAME_BYTES = 32 * 2**20
_READ_BYTES = 65536

# stomp.py logs frames and tracebacks by itself; who uses a session reports what matters.
logging.getLogger("stomp.py").setLevel(logging.CRITICAL)


class _SocketTransport(stomp.transport.Transport):  # type: ignore[misc]
    """stomp.py's transport with a bounded buffer, TCP_NODELAY and end-of-file over TLS."""

    def __init__(self, config: BrokerConfig) -> None:
        super().__init__(
            [(config.host, config.port)],
            prefer_localhost=False,
            try_loopback_connect=False,
            reconnect_attempts_max=1,
            reconnect_sleep_initial=0.0,
            reconnect_sleep_max=0.0,
            timeout=CONNECT_SECONDS,
            auto_decode=False,
            is_eol_fc=stomp.connect.StompConnection12.is_eol,
        )
        self._pending_bytes = 0

    def attempt_connection(self) -> None:
        super().attempt_connection()
        sock: socket.socket = self.socket
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A broker that stops reading must not hold a sender for ever.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_SECONDS, 0))

    def receive(self) -> bytes | None:
        sock = self.socket
        if sock is None:
            return self._end()
        try:
            data: bytes = sock.recv(_READ_BYTES)
        except (BlockingIOError, InterruptedError) as error:
            raise stomp.exception.InterruptedException from error
        except OSError as error:
            if type(error).__name__ in ("SSLWantReadError", "SSLWantWriteError"):
                raise
            return self._end()
        self._pending_bytes += len(data)
        if not data or self._pending_bytes > MAX_FRAME_BYTES:
            return self._end()
        return data

    def _end(self) -> bytes:
        # stomp.py ignores an empty read over TLS; without this its loop spins for ever.
        if not self.blocking:
            self.running = False
        return b""

    def process_frame(self, f: Any, frame_str: Any) -> None:
        self._pending_bytes = 0
        super().process_frame(f, frame_str)

    def disconnect_socket(self) -> None:
        """Wake the reading thread, which alone closes the socket.

        stomp.py would wait here for the peer's TLS goodbye, for ever if it is dead.
        """
        self.running = False
        sock = self.socket
        if sock is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(sock, socket.SHUT_RDWR)


class _Connection(stomp.connect.BaseConnection, stomp.protocol.Protocol12):  # type: ignore[misc]
    """STOMP 1.2 over our transport."""

    def __init__(self, transport: _SocketTransport, heartbeat_ms: int) -> None:
        stomp.connect.BaseConnection.__init__(self, transport)
        stomp.protocol.Protocol12.__init__(self, transport, (heartbeat_ms, heartbeat_ms))

    def goodbye(self) -> None:
        # By name: BaseConnection has an empty `disconnect` that would be found first.
        stomp.protocol.Protocol12.disconnect(self)


class _Receipts:
    """Receipts that somebody waits for."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._waiting: set[str] = set()
        self._refused: dict[str, str] = {}
        self._broken = False

    def expect(self, receipt: str) -> None:
        with self._condition:
            self._waiting.add(receipt)

    def arrived(self, receipt: str, refused: str | None = None) -> bool:
        with self._condition:
            if receipt not in self._waiting:
                return False
            self._waiting.discard(receipt)
            if refused is not None:
                self._refused[receipt] = refused
            self._condition.notify_all()
            return True

    def broken(self) -> None:
        with self._condition:
            self._broken = True
            self._condition.notify_all()

    def wait(self, receipts: Iterable[str], timeout: float) -> None:
        wanted = set(receipts)
        with self._condition:
            done = self._condition.wait_for(
                lambda: self._broken or not (wanted & self._waiting), timeout
            )
            missing = wanted & self._waiting
            self._waiting -= wanted
            refusals = [self._refused.pop(item) for item in wanted if item in self._refused]
        if refusals:
            raise TransportError(f"the broker refused: {refusals[0]}", refused=True)
        if missing:
            raise TransportError("connection lost" if done else "no receipt in time")


class Session(stomp.ConnectionListener):  # type: ignore[misc]
    """One connection from CONNECTED until it is lost.

    Args:
        config: the broker.
        heartbeat_ms: heart-beats both ways, in milliseconds.
        on_frame: called on the reading thread with (session, headers, body) of a MESSAGE.

    Raises:
        TransportError: the broker cannot be reached or refuses the sign-in.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        heartbeat_ms: int,
        on_frame: Callable[[Session, Mapping[str, str], bytes], None],
    ) -> None:
        self.lost = threading.Event()
        self.last_error = ""
        self._answered = threading.Event()
        self._connected = False
        self._receipts = _Receipts()
        self._numbers = itertools.count(1)
        self._on_frame = on_frame
        self._transport = _SocketTransport(config)
        self._connection = _Connection(self._transport, heartbeat_ms)
        self._connection.set_listener("portcullis", self)
        self._open(config)

    def _open(self, config: BrokerConfig) -> None:
        self._secure(config)
        try:
            self._transport.start()
            self._connection.connect(config.login or None, config.passcode or None)
        except (stomp.exception.StompException, OSError) as error:
            self.abandon()
            raise TransportError(f"no connection to {config.host}:{config.port}") from error
        answered = self._answered.wait(CONNECT_SECONDS)
        if not self._connected:
            self.abandon()
            reason = self.last_error or ("connection closed" if answered else "no answer")
            raise TransportError(f"{config.host}:{config.port} did not accept us: {reason}")

    def _secure(self, config: BrokerConfig) -> None:
        if config.tls is not None:
            for path in (config.tls.ca, config.tls.certificate, config.tls.key):
                # stomp.py would try again for ever, without a pause.
                if path is not None and not Path(path).is_file():
                    raise TransportError(f"the TLS file {path} is missing")
            self._connection.set_ssl(
                for_hosts=[(config.host, config.port)],
                ca_certs=config.tls.ca,
                cert_file=config.tls.certificate,
                key_file=config.tls.key,
            )

    @property
    def alive(self) -> bool:
        """Whether the connection was not lost yet."""
        return self._connected and not self.lost.is_set()

    def subscribe(self, queue: str, *, identifier: str, prefetch: int, cumulative: bool) -> None:
        """SUBSCRIBE and wait until the broker confirms it.

        Raises:
            TransportError: refused, or the connection was lost.
        """
        receipt = self._expect()
        with self._writing():
            self._connection.subscribe(
                f"/queue/{queue}",
                identifier,
                "client" if cumulative else "client-individual",
                {"activemq.prefetchSize": str(prefetch), "receipt": receipt},
            )
        self._receipts.wait([receipt], CONNECT_SECONDS)

    def unsubscribe(self, identifier: str) -> None:
        """UNSUBSCRIBE and wait; the broker takes back what was not acknowledged."""
        receipt = self._expect()
        with self._writing():
            self._connection.unsubscribe(identifier, {"receipt": receipt})
        self._receipts.wait([receipt], CONNECT_SECONDS)

    def send(self, messages: Iterable[Outgoing], *, timeout: float) -> None:
        """SEND all, then wait for the receipt of each.

        Every message asks for its own receipt: only then has the broker stored it.

        Raises:
            TransportError: one was refused, or the connection was lost before all receipts.
        """
        receipts = []
        for message in messages:
            receipt = self._expect()
            receipts.append(receipt)
            with self._writing():
                self._connection.send(
                    f"/queue/{message.queue}",
                    message.body,
                    "application/octet-stream",
                    _headers(message, receipt),
                )
        self._receipts.wait(receipts, timeout)

    def ack(self, identifier: str) -> None:
        """ACK by the `ack` header of a MESSAGE; not confirmed by the broker."""
        with self._writing():
            self._connection.ack(identifier)

    def disconnect(self) -> None:
        """Say goodbye, wait for the receipt, close."""
        with contextlib.suppress(Exception):
            self._connection.goodbye()
            self.lost.wait(2.0)
        self.abandon()

    def abandon(self) -> None:
        """Close at once without a word."""
        self._lose()
        self._transport.disconnect_socket()

    def _expect(self) -> str:
        receipt = f"r{next(self._numbers)}"
        self._receipts.expect(receipt)
        return receipt

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        if not self.alive:
            raise TransportError("connection lost")
        try:
            yield
        except Exception as error:
            # A partly written frame leaves the stream unusable: never write to it again.
            self.abandon()
            raise TransportError("connection lost while writing") from error

    def _lose(self) -> None:
        self.lost.set()
        self._receipts.broken()
        self._answered.set()

    # stomp.py's callbacks; one that raises would kill the connection.

    def on_connected(self, frame: Any) -> None:
        """The broker accepted us."""
        self._connected = True
        self._answered.set()

    def on_message(self, frame: Any) -> None:
        """A MESSAGE came."""
        body = frame.body if isinstance(frame.body, bytes) else str(frame.body or "").encode()
        with contextlib.suppress(Exception):
            self._on_frame(self, frame.headers, body)

    def on_receipt(self, frame: Any) -> None:
        """A RECEIPT came."""
        self._receipts.arrived(str(frame.headers.get("receipt-id", "")))

    def on_error(self, frame: Any) -> None:
        """An ERROR came: for one send, or for the connection."""
        self.last_error = str(frame.headers.get("message", "error"))[:200]
        if not self._connected:
            self._answered.set()
        self._receipts.arrived(str(frame.headers.get("receipt-id", "")), self.last_error)

    def on_disconnected(self) -> None:
        """The connection is gone (may be told twice)."""
        self._lose()

    def on_heartbeat_timeout(self) -> None:
        """The broker fell silent."""
        self._lose()


def _headers(message: Outgoing, receipt: str) -> dict[str, str]:
    headers = dict(message.headers)
    headers["receipt"] = receipt
    if message.persistent:
        # Without this header ActiveMQ loses receipted messages when it is killed.
        headers["persistent"] = "true"
    if message.expires is not None:
        headers["expires"] = str(message.expires)
    return headers
