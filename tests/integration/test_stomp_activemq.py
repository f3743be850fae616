"""The transport port: one contract for ActiveMQ over STOMP and for the in-memory broker."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokers.adapters.stomp import (
    BrokerConfig,
    BrokersFile,
    ConfigurationError,
    Outgoing,
    StompTransport,
    TlsConfig,
    TransportError,
)
from brokers.ports import Message, Transport
from tasks.local.activemq import ActiveMQ, write_brokers_file
from tests.support.certificates import make_certificates
from tests.support.data_plane import PATIENCE, wait_until
from tests.support.memory_broker import MemoryBroker, MemoryTransport
from tests.support.ports import free_port

_numbers = itertools.count(1)
pytestmark = pytest.mark.activemq


def _config(
    broker: ActiveMQ, account: str = "control", passcode: str | None = None
) -> BrokerConfig:
    secret = broker.accounts[account] if passcode is None else passcode
    return BrokerConfig(broker.host, broker.port, account, secret)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ActiveMQ]:
    """A broker of the test's own, that it may kill."""
    running = ActiveMQ(tmp_path / "amq", name="mortal")
    running.start()
    yield running
    running.stop()


@pytest.fixture(params=["activemq", "memory"])
def transport(request: pytest.FixtureRequest) -> Iterator[Transport]:
    if request.param == "memory":
        opened: Transport = MemoryTransport(MemoryBroker())
    else:
        opened = StompTransport(_config(request.getfixturevalue("activemq")), name="test")
    opened.start()
    wait_until(lambda: opened.connected, "a connection")
    yield opened
    opened.close()


@pytest.fixture
def queue() -> str:
    """A queue that no other test uses."""
    return f"pc.test.{os.getpid()}-{next(_numbers)}"


def _take(transport: Transport, count: int, seconds: float = PATIENCE) -> list[bytes]:
    bodies: list[bytes] = []
    deadline = time.monotonic() + seconds
    while len(bodies) < count and time.monotonic() < deadline:
        messages = transport.receive_many(50, 0.5)
        transport.ack_many(messages)
        bodies.extend(message.body for message in messages)
    return bodies


def _numbered(queue: str, count: int) -> list[Outgoing]:
    return [Outgoing(queue, b"%d" % number) for number in range(count)]


def test_carries_any_bytes(transport: Transport, queue: str) -> None:
    bodies = [b"\x00", b"\x00\n\x00\x00", bytes(range(256)) * 40, b"a\n\nb", b"x" * 3_000_000]
    transport.subscribe(queue)
    transport.send_many([Outgoing(queue, body) for body in bodies])
    assert _take(transport, len(bodies)) == bodies


def test_batches_arrive_in_order(transport: Transport, queue: str) -> None:
    transport.subscribe(queue, cumulative=True, prefetch=64)
    transport.send_many(_numbered(queue, 500))
    assert _take(transport, 500) == [b"%d" % number for number in range(500)]


def test_unacknowledged_messages_come_again_after_unsubscribe(
    transport: Transport, queue: str
) -> None:
    transport.send_many(_numbered(queue, 10))
    transport.subscribe(queue, cumulative=True)
    first: list[bytes] = []
    while len(first) < 4:
        messages = transport.receive_many(4 - len(first), 5)
        first += [message.body for message in messages]
        transport.ack_many(messages)
    left = transport.receive_many(2, 5)
    transport.unsubscribe(queue)
    assert transport.receive_many(10, 0.3) == []
    transport.subscribe(queue)
    transport.ack_many(left)  # of a subscription that is gone: without effect
    assert first + _take(transport, 6) == [b"%d" % number for number in range(10)]


def test_cumulative_acknowledgement_speaks_for_all_before(transport: Transport, queue: str) -> None:
    transport.send_many(_numbered(queue, 4))
    transport.subscribe(queue, cumulative=True)
    taken = []
    while len(taken) < 4:
        taken += transport.receive_many(4, 5)
    taken[2].ack()
    transport.unsubscribe(queue)
    transport.subscribe(queue)
    assert _take(transport, 1) == [b"3"]


def test_single_acknowledgement_leaves_the_others(transport: Transport, queue: str) -> None:
    transport.send_many(_numbered(queue, 3))
    transport.subscribe(queue)
    taken = []
    while len(taken) < 3:
        taken += transport.receive_many(3, 5)
    taken[1].ack()
    transport.unsubscribe(queue)
    transport.subscribe(queue)
    assert _take(transport, 2) == [b"0", b"2"]


def test_prefetch_is_the_backpressure(transport: Transport, queue: str) -> None:
    transport.send_many(_numbered(queue, 20))
    transport.subscribe(queue, prefetch=5)
    taken: list[Message] = []
    deadline = time.monotonic() + PATIENCE
    while len(taken) < 5 and time.monotonic() < deadline:
        taken += transport.receive_many(100, 1)
    taken += transport.receive_many(100, 0.5)
    assert len(taken) == 5
    transport.ack_many(taken)
    assert len(_take(transport, 15)) == 15


def test_what_does_not_fit_the_inbox_stays_with_the_broker(activemq: ActiveMQ, queue: str) -> None:
    transport = StompTransport(_config(activemq), name="small", inbox_bytes=200_000)
    transport.connect()
    try:
        bodies = [b"%04d" % number + b"x" * 50_000 for number in range(60)]
        transport.send_many([Outgoing(queue, body) for body in bodies])
        transport.subscribe(queue, prefetch=100, cumulative=True)
        time.sleep(1)  # all 60 are on their way; 4 fit
        first = transport.receive_many(100, 5)
        assert 1 <= len(first) <= 4
        transport.ack_many(first)
        got = [message.body for message in first] + _take(transport, 60 - len(first))
        assert got == bodies
        assert transport.connections == 1
    finally:
        transport.close()


def test_mends_itself_and_loses_nothing_when_the_broker_is_killed(broker: ActiveMQ) -> None:
    transport = StompTransport(_config(broker), name="test", heartbeat_ms=1000)
    transport.connect(PATIENCE)
    transport.subscribe("pc.test", cumulative=True)
    accepted: list[bytes] = []
    got: set[bytes] = set()
    stop = threading.Event()

    def produce() -> None:
        for number in itertools.count():
            if stop.is_set():
                return
            body = b"%d" % number
            try:
                transport.send("pc.test", body, timeout=10)
            except TransportError:
                continue
            accepted.append(body)

    producer = threading.Thread(target=produce)
    producer.start()
    try:
        for _ in range(2):
            got.update(_take(transport, 100))
            broker.kill()
            wait_until(lambda: not transport.connected, "the loss to be noticed")
            broker.start()
            wait_until(lambda: transport.connected, "a new connection")
        got.update(_take(transport, 100))
        stop.set()
        producer.join()
        deadline = time.monotonic() + PATIENCE
        while not set(accepted) <= got and time.monotonic() < deadline:
            got.update(_take(transport, 1, 1))
        assert len(accepted) > 100
        assert set(accepted) <= got
    finally:
        stop.set()
        transport.close()


def test_a_frozen_broker_is_noticed(broker: ActiveMQ) -> None:
    transport = StompTransport(_config(broker), name="test", heartbeat_ms=500)
    transport.connect(PATIENCE)
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        wait_until(lambda: not transport.connected, "the silence to be noticed", 10)
        with pytest.raises(TransportError):
            transport.send("pc.test", b"x", timeout=0.5)
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    wait_until(lambda: transport.connected, "a new connection")
    transport.send("pc.test", b"x")
    transport.close()


def test_starts_before_its_broker(tmp_path: Path) -> None:
    late = ActiveMQ(tmp_path / "amq", name="late")
    transport = StompTransport(_config(late), name="early")
    transport.subscribe("pc.test")
    with pytest.raises(TransportError):
        transport.connect(timeout=0.5)
    late.start()
    try:
        transport.send("pc.test", b"hello", timeout=PATIENCE)
        assert _take(transport, 1) == [b"hello"]
    finally:
        transport.close()
        late.stop()


def test_a_refused_destination_is_an_error_and_the_connection_goes_on(
    activemq: ActiveMQ, queue: str
) -> None:
    transport = StompTransport(_config(activemq, "clients"), name="client")
    transport.connect()
    try:
        with pytest.raises(TransportError) as refused:
            transport.send(queue, b"x")
        assert refused.value.refused
        with pytest.raises(TransportError) as refused:
            transport.subscribe(queue)
        assert refused.value.refused
        transport.send("pc.in.test.test", b"x")
        assert transport.connections == 1
    finally:
        transport.close()


def test_a_wrong_passcode_says_so_and_is_not_shown(activemq: ActiveMQ) -> None:
    config = _config(activemq, passcode="wrong-secret")
    transport = StompTransport(config, name="stranger")
    with pytest.raises(TransportError) as caught:
        transport.connect(timeout=3)
    transport.close()
    assert "did not accept us" in str(caught.value)
    assert "wrong-secret" not in f"{caught.value} {config!r}"


def test_over_tls_with_client_certificates(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    broker = ActiveMQ(tmp_path / "amq", name="tls", tls=made.server, probe_tls=made.client)
    broker.start()
    entries = {"a": broker.entry("control")}
    path = write_brokers_file(tmp_path / "brokers.json", entries)
    transport = StompTransport(BrokersFile.load(path).control_broker(), name="test")
    stranger = _stranger(broker, tmp_path)
    try:
        transport.connect(PATIENCE)
        transport.subscribe("pc.test")
        bodies = [b"x" * 300_000, b"\x00" * 10, b"end"]
        transport.send_many([Outgoing("pc.test", body) for body in bodies])
        assert _take(transport, 3) == bodies
        with pytest.raises(TransportError):
            stranger.connect(timeout=3)
        broker.kill()
        # stomp.py alone would go on sending into nowhere.
        wait_until(lambda: not transport.connected, "the end to be noticed", 3)
        broker.start()
        transport.send("pc.test", b"again", timeout=PATIENCE)
        assert _take(transport, 1) == [b"again"]
    finally:
        transport.close()
        stranger.close()
        broker.stop()


def _stranger(broker: ActiveMQ, folder: Path) -> StompTransport:
    (folder / "other").mkdir()
    made = make_certificates(folder / "other")
    entry = {**broker.entry("control"), "tls": {
        "ca": str(folder / "ca.pem"),
        "certificate": made.stranger.certificate,
        "key": made.stranger.key,
    }}  # fmt: skip
    path = write_brokers_file(folder / "stranger.json", {"a": entry})
    return StompTransport(BrokersFile.load(path).control_broker(), name="stranger")


def test_a_missing_certificate_is_named(tmp_path: Path) -> None:
    tls = TlsConfig(ca=str(tmp_path / "nothing.pem"))
    transport = StompTransport(BrokerConfig("127.0.0.1", free_port(), tls=tls), name="x")
    with pytest.raises(TransportError, match=r"nothing\.pem is missing"):
        transport.connect(timeout=0.5)
    transport.close()


def test_credentials_and_names_cannot_inject() -> None:
    with pytest.raises(ConfigurationError):
        BrokerConfig("127.0.0.1", 1, "a\nlogin:admin")
    with pytest.raises(ConfigurationError):
        BrokerConfig("127.0.0.1", 1, "a", "b\x00")
    transport = StompTransport(BrokerConfig("127.0.0.1", free_port()), name="x")
    for name in ("pc.>", "a,b", "*", "a?consumer.priority=1", "", "a\nb"):
        with pytest.raises(ValueError, match="not a queue name"):
            transport.subscribe(name)
        with pytest.raises(ValueError, match="not a queue name"):
            transport.send(name, b"")


def test_the_brokers_file_is_private_and_whole(tmp_path: Path) -> None:
    entry = {"host": "127.0.0.1", "port": 61613, "login": "a", "passcode": "b", "tls": None}
    path = write_brokers_file(tmp_path / "brokers.json", {"a": entry})
    assert BrokersFile.load(path).control_broker() == BrokerConfig("127.0.0.1", 61613, "a", "b")
    path.chmod(0o644)
    with pytest.raises(ConfigurationError, match="0600"):
        BrokersFile.load(path)
    path.chmod(0o600)
    for text in ("", "[]", "{}", '{"control": "b", "overlays": {}}', '{"overlays": {"A/": {}}}'):
        path.write_text(text)
        with pytest.raises(ConfigurationError):
            BrokersFile.load(path)
    with pytest.raises(ConfigurationError):
        BrokersFile.load(tmp_path / "nothing")
