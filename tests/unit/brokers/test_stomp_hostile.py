"""A broker that sends rubbish: the transport bounds what it keeps, and mends the connection."""

from __future__ import annotations

import contextlib
import socket
import threading
import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from brokers.adapters.brokers_file import BrokerConfig
from brokers.adapters.stomp import StompTransport
from tests.support.data_plane import wait_until

QUEUE = "pc.hostile"
CONNECTED = b"CONNECTED\nversion:1.2\nheart-beat:0,0\n\n\0"


def message(body: bytes, **changes: str) -> bytes:
    """A MESSAGE for the first subscription."""
    headers = {
        "subscription": "s1",
        "message-id": "m",
        "ack": "a",
        "destination": f"/queue/{QUEUE}",
        "content-length": str(len(body)),
        **{name.replace("_", "-"): value for name, value in changes.items()},
    }
    head = "".join(f"{name}:{value}\n" for name, value in headers.items() if value != "-")
    return b"MESSAGE\n" + head.encode() + b"\n" + body + b"\0"


Play = Callable[[socket.socket], None]


class RudeBroker:
    """Accepts one connection after the other; each is played by the next of `plays`.

    When they are used up, it behaves.
    """

    def __init__(self, *plays: Play) -> None:
        self._plays = list(plays)
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self.connections = 0
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            self.connections += 1
            play = self._plays.pop(0) if self._plays else _behave
            with client, contextlib.suppress(OSError):
                client.settimeout(10)
                _greet(client)
                play(client)
                # Until the other side leaves.
                while (data := client.recv(65536)) and b"DISCONNECT" not in data:
                    pass

    def close(self) -> None:
        self._server.close()
        self._thread.join(0.1)


def _greet(client: socket.socket) -> None:
    """CONNECTED, and a receipt for the subscription."""
    _until(client, b"accept-version")
    client.sendall(CONNECTED)
    asked = _until(client, b"SUBSCRIBE")
    receipt = asked.split(b"receipt:")[1].split(b"\n")[0]
    client.sendall(b"RECEIPT\nreceipt-id:" + receipt + b"\n\n\0")


def _until(client: socket.socket, word: bytes) -> bytes:
    got = b""
    while not (word in got and got.endswith(b"\0")):
        data = client.recv(65536)
        if not data:
            raise OSError("gone")
        got += data
    return got


def _behave(client: socket.socket) -> None:
    client.sendall(message(b"all is well"))


def _sending(data: bytes) -> Play:
    def play(client: socket.socket) -> None:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)

    return play


@pytest.fixture
def connect() -> Iterator[Callable[..., tuple[RudeBroker, StompTransport]]]:
    opened: list[RudeBroker | StompTransport] = []

    def make(*plays: Play) -> tuple[RudeBroker, StompTransport]:
        broker = RudeBroker(*plays)
        transport = StompTransport(BrokerConfig("127.0.0.1", broker.port), name="test")
        transport.subscribe(QUEUE)
        opened.extend((transport, broker))
        transport.start()
        return broker, transport

    yield make
    for one in opened:
        one.close()


def _wait_for_good(transport: StompTransport) -> list[bytes]:
    """Everything up to the message of a broker that behaves."""
    got: list[bytes] = []
    wait_until(
        lambda: (
            bool(got.extend(one.body for one in transport.receive_many(50, 0.2)))
            or b"all is well" in got
        ),
        f"the connection to be mended; {transport.last_error}",
        60,
    )
    return got


RUBBISH = [
    b"\0" * 1000,
    b"\n" * 1000,
    b"MESSAGE\0",
    b"MESSAGE\n\n\0",
    b"NONSENSE\nx:y\n\n\0",
    b"MESSAGE\nno colon here\n\nbody\0",
    b"\xff\xfe\xfd\n\xff:\xfe\n\n\xff\0",
    message(b"x", content_length="-1"),
    message(b"x", content_length="nonsense"),
    message(b"x", content_length="9" * 30),
    message(b"cut off")[:-5],
    message(b"not ours", subscription="s999"),
    message(b"of nobody", subscription="-"),
    b"RECEIPT\nreceipt-id:never-asked\n\n\0",
    b"ERROR\nmessage:\\\n\n\0",
    b"CONNECTED\nversion:9.9\n\n\0" * 3,
]


def test_rubbish_harms_nothing_and_the_connection_is_mended(
    connect: Callable[..., tuple[RudeBroker, StompTransport]],
) -> None:
    broker, transport = connect(*map(_sending, RUBBISH))
    assert set(_wait_for_good(transport)) <= {b"all is well", b"x", b""}
    assert broker.connections == len(RUBBISH) + 1


def test_a_frame_without_end_is_cut_off_and_costs_bounded_memory(
    connect: Callable[..., tuple[RudeBroker, StompTransport]],
) -> None:
    sent = 0

    def endless(client: socket.socket) -> None:
        nonlocal sent
        client.sendall(b"MESSAGE\nsubscription:s1\n\n")
        for _ in range(400):
            client.sendall(b"x" * 2**20)
            sent += 2**20

    tracemalloc.start()
    try:
        _, transport = connect(endless)
        wait_until(lambda: b"all is well" in _wait_for_good(transport), "a better broker", 30)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sent < 100 * 2**20
    assert peak < 160 * 2**20
