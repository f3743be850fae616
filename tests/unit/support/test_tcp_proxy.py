"""The tests' bad network itself: every way in which it is bad, on real sockets."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.support.ports import wait_until
from tests.support.tcp_proxy import HELD, OPEN, TcpProxy, Way

_QUIET = 0.3
_PATIENCE = 60.0


class Listening:
    """A server that keeps what came on each connection, and says what it is told to."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self.heard: list[bytearray] = []
        self.ends: list[str] = []
        self.connections: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                one, _ = self._server.accept()
                heard = bytearray()
                self.heard.append(heard)
                self.connections.append(one)
                threading.Thread(target=self._take, args=(one, heard), daemon=True).start()

    def _take(self, one: socket.socket, heard: bytearray) -> None:
        try:
            while data := one.recv(65_536):
                heard += data
            self.ends.append("closed")
        except OSError:
            self.ends.append("reset")

    def got(self, wanted: bytes, seconds: float = _PATIENCE) -> None:
        wait_until(lambda: self.all == wanted, seconds=seconds, what=f"{wanted[:40]!r} to come")

    @property
    def all(self) -> bytes:
        return b"".join(self.heard)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for one in self.connections:
            one.close()


@pytest.fixture
def server() -> Iterator[Listening]:
    made = Listening()
    yield made
    made.close()


@pytest.fixture
def proxy(server: Listening) -> Iterator[TcpProxy]:
    with TcpProxy(server.port, seed="test", record=True) as made:
        yield made


@pytest.fixture
def client(proxy: TcpProxy, server: Listening) -> Iterator[socket.socket]:
    with connected(proxy) as made:
        made.sendall(b"hello ")
        server.got(b"hello ")
        yield made


def connected(proxy: TcpProxy) -> socket.socket:
    made = socket.create_connection(proxy.address, timeout=_PATIENCE)
    made.settimeout(_PATIENCE)
    return made


def silent(one: socket.socket) -> bool:
    """Whether nothing comes, not even an end."""
    one.settimeout(_QUIET)
    try:
        one.recv(1)
    except TimeoutError:
        return True
    finally:
        one.settimeout(_PATIENCE)
    return False


def end_of(one: socket.socket) -> str:
    try:
        return "closed" if one.recv(1) == b"" else "more"
    except ConnectionResetError:
        return "reset"


def test_passes_both_ways_and_keeps_what_came_with_its_moments(
    proxy: TcpProxy, server: Listening, client: socket.socket
) -> None:
    before = time.time()
    client.sendall(b"there")
    server.got(b"hello there")
    server.connections[0].sendall(b"back")
    assert client.recv(10) == b"back"
    assert proxy.heard == [b"hello there", b"back"]
    ((answer,),) = proxy.pieces("back")
    assert before <= answer.at <= time.time()
    client.close()
    wait_until(lambda: server.ends == ["closed"], seconds=_PATIENCE, what="the end to pass")
    wait_until(lambda: proxy.open == 0, seconds=_PATIENCE, what="the connection to be over")


def test_a_megabyte_passes_whole(proxy: TcpProxy, server: Listening, client: socket.socket) -> None:
    body = bytes(range(256)) * 8192
    client.sendall(body)
    server.got(b"hello " + body)


@pytest.mark.parametrize("lost", ["there", "back"])
def test_one_way_holds_one_direction_and_brings_it_late(
    proxy: TcpProxy, server: Listening, client: socket.socket, lost: str
) -> None:
    far = server.connections[0]
    near_says, far_says = (client, far) if lost == "there" else (far, client)
    proxy.cut(lost)
    near_says.sendall(b"lost")
    far_says.sendall(b"heard")
    if lost == "there":
        assert client.recv(10) == b"heard"
        time.sleep(_QUIET)
        assert server.all == b"hello "
    else:
        server.got(b"hello heard")
        assert silent(client)
    proxy.heal()
    if lost == "there":
        server.got(b"hello lost")
    else:
        assert client.recv(10) == b"lost"


def test_who_connects_during_a_partition_hears_nothing_until_it_is_over(
    proxy: TcpProxy, server: Listening, client: socket.socket
) -> None:
    proxy.ways(back=HELD)
    with connected(proxy) as late:
        late.sendall(b"late")
        assert silent(late)
        assert len(server.connections) == 1
        proxy.ways(back=OPEN)
        server.got(b"hello late")


def test_an_end_that_is_held_back_comes_after_what_was_said(
    proxy: TcpProxy, server: Listening, client: socket.socket
) -> None:
    proxy.cut("there")
    client.sendall(b"last words")
    client.close()
    time.sleep(_QUIET)
    assert (server.all, server.ends) == (b"hello ", [])
    proxy.heal()
    server.got(b"hello last words")
    wait_until(lambda: server.ends == ["closed"], seconds=_PATIENCE, what="the end")


def test_half_open_carries_nothing_ever_again_and_tells_nobody_the_end(
    proxy: TcpProxy, server: Listening, client: socket.socket
) -> None:
    proxy.half_open()
    client.sendall(b"lost")
    server.connections[0].sendall(b"lost too")
    assert silent(client)
    proxy.heal()
    assert silent(client)
    assert server.all == b"hello "
    client.close()
    time.sleep(_QUIET)
    assert server.ends == []
    with connected(proxy) as fresh:
        fresh.sendall(b"fresh")
        server.got(b"hello fresh")
    server.connections[0].shutdown(socket.SHUT_RDWR)
    wait_until(lambda: proxy.open == 0, seconds=_PATIENCE, what="both to have given it up")


def test_reset_ends_all_connections_at_once(
    proxy: TcpProxy, server: Listening, client: socket.socket
) -> None:
    with connected(proxy) as other:
        other.sendall(b"x")
        server.got(b"hello x")
        assert proxy.reset() == 2
        assert [end_of(one) for one in (client, other)] == ["reset", "reset"]
    wait_until(lambda: server.ends == ["reset", "reset"], seconds=_PATIENCE, what="the resets")


def test_healing_with_a_reset_forgets_what_was_held(
    proxy: TcpProxy, server: Listening, client: socket.socket
) -> None:
    proxy.cut("there")
    client.sendall(b"forgotten")
    time.sleep(_QUIET)
    proxy.heal(reset=True)
    assert end_of(client) == "reset"
    with connected(proxy) as fresh:
        fresh.sendall(b"fresh")
        server.got(b"hello fresh")


def test_truncate_cuts_off_in_the_middle_at_the_seeds_place(
    proxy: TcpProxy, server: Listening, client: socket.socket
) -> None:
    proxy.truncate("there", most=50)
    client.sendall(b"y" * 100)
    assert end_of(client) == "reset"
    wait_until(lambda: len(server.ends) == 1, seconds=_PATIENCE, what="the end")
    passed = len(server.all) - len(b"hello ")
    assert 1 <= passed <= 50
    with (
        TcpProxy(server.port, seed="test") as again,
        connected(again) as one,
    ):
        one.sendall(b"hello ")
        wait_until(
            lambda: len(server.heard) == 2 and server.heard[1] == b"hello ",
            seconds=_PATIENCE,
            what="the first words",
        )
        again.truncate("there", most=50)
        one.sendall(b"y" * 100)
        assert end_of(one) == "reset"
        wait_until(lambda: len(server.ends) == 2, seconds=_PATIENCE, what="the end")
    assert len(server.heard[1]) - len(b"hello ") == passed


def test_drip_brings_a_few_bytes_at_a_time(
    proxy: TcpProxy, server: Listening, client: socket.socket
) -> None:
    proxy.ways(there=Way(drip=2, pause=0.05))
    started = time.monotonic()
    client.sendall(b"0123456789")
    server.got(b"hello 0123456789")
    assert time.monotonic() - started >= 5 * 0.05


def test_delay_brings_all_later_in_its_order_and_not_one_after_the_other(
    proxy: TcpProxy, server: Listening, client: socket.socket
) -> None:
    proxy.ways(there=Way(delay=1.0, jitter=0.2))
    started = time.monotonic()
    letters = b"abcdefghijklmnopqrstuvwxyz"
    for letter in letters:
        client.sendall(bytes([letter]))
        time.sleep(0.01)
    server.got(b"hello " + letters)
    assert 1.0 <= time.monotonic() - started < 20.0


def test_replay_says_once_more_what_was_said(
    proxy: TcpProxy, server: Listening, client: socket.socket
) -> None:
    client.sendall(b"again")
    server.got(b"hello again")
    assert proxy.replay("there", begin=lambda data: data.index(b"again")) == len(b"again")
    server.got(b"hello againagain")
    client.sendall(b" more")
    server.got(b"hello againagain more")


def test_a_target_that_is_away_ends_the_connection(server: Listening) -> None:
    with TcpProxy(server.port) as proxy:
        server.close()
        with connected(proxy) as one:
            assert end_of(one) in ("closed", "reset")
