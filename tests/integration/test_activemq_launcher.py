"""The private ActiveMQ: who may do what, what survives a crash, TLS by configuration alone."""

from __future__ import annotations

import contextlib
import signal
import ssl
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from brokers.adapters.stomp import BrokersFile
from tasks.local.activemq import ACCOUNTS, ActiveMQ, probe
from tasks.local.processes import group_alive
from tests.support.certificates import Certificates, make_certificates
from tests.support.stomp_client import StompClient

pytestmark = pytest.mark.activemq


def test_stop_ends_the_jvm_and_frees_the_port(tmp_path: Path) -> None:
    broker = ActiveMQ(tmp_path, name="short")
    broker.start()
    pid = broker.pid
    assert pid is not None
    assert broker.ready()
    broker.stop()
    assert not broker.running
    assert not group_alive(pid)
    assert not broker.ready()


def test_passwords_are_random_kept_and_private(tmp_path: Path) -> None:
    first, again = ActiveMQ(tmp_path / "one", name="one"), ActiveMQ(tmp_path / "one", name="one")
    other = ActiveMQ(tmp_path / "two", name="two")
    assert set(first.accounts) == set(ACCOUNTS)
    assert first.accounts == again.accounts
    assert not set(first.accounts.values()) & set(other.accounts.values())
    mode = stat.S_IMODE((tmp_path / "one" / "accounts.json").stat().st_mode)
    assert mode == 0o600


def test_a_wrong_password_is_refused(activemq: ActiveMQ) -> None:
    with StompClient(activemq, "control", passcode="wrong") as client:
        assert client.connect().command == "ERROR"


@pytest.mark.parametrize(
    ("account", "verb", "queue", "allowed"),
    [
        ("control", "send", "pc.control.agent.t1", True),
        ("control", "subscribe", "pc.requests", True),
        ("control", "subscribe", "pc.dead.t1", True),
        ("agents", "subscribe", "pc.control.agent.t1", True),
        ("agents", "subscribe", "pc.in.t1.heating", True),
        ("agents", "subscribe", "pc.hop.t1.heating", True),
        ("agents", "send", "pc.requests", True),
        ("agents", "send", "pc.deliver.t1", True),
        ("agents", "send", "pc.hop.t1.heating", True),
        ("agents", "send", "pc.dead.t1", True),
        ("agents", "send", "pc.control.agent.t1", False),
        ("agents", "send", "pc.control.client.t1", False),
        ("agents", "send", "pc.in.t1.heating", False),
        ("agents", "subscribe", "pc.requests", False),
        ("agents", "subscribe", "pc.deliver.t1", False),
        ("agents", "subscribe", "pc.control.client.t1", False),
        ("clients", "subscribe", "pc.control.client.t1", True),
        ("clients", "subscribe", "pc.deliver.t1", True),
        ("clients", "send", "pc.in.t1.heating", True),
        ("clients", "send", "pc.requests", True),
        ("clients", "send", "pc.deliver.t1", False),
        ("clients", "send", "pc.hop.t1.heating", False),
        ("clients", "send", "pc.control.agent.t1", False),
        ("clients", "send", "anything.else", False),
        ("clients", "subscribe", "pc.in.t1.heating", False),
        ("clients", "subscribe", "pc.control.agent.t1", False),
        ("clients", "subscribe", "pc.requests", False),
        ("clients", "subscribe", ">", False),
    ],
)
def test_each_account_may_do_what_its_part_needs_and_no_more(
    activemq: ActiveMQ, account: str, verb: str, queue: str, allowed: bool
) -> None:
    with StompClient(activemq, account) as client:
        assert client.connect().command == "CONNECTED"
        answer = client.send(queue, b"x") if verb == "send" else client.subscribe(queue)
    assert answer.command == ("RECEIPT" if allowed else "ERROR"), answer


def test_a_composite_destination_does_not_widen_the_rights(activemq: ActiveMQ) -> None:
    with contextlib.suppress(ConnectionError), StompClient(activemq, "clients") as client:
        assert client.connect().command == "CONNECTED"
        client.send("pc.in.t2.heating,pc.control.agent.t2", b"smuggled")
    with StompClient(activemq, "control") as control:
        assert control.connect().command == "CONNECTED"
        assert control.subscribe("pc.control.agent.t2").command == "RECEIPT"
        assert control.receive(timeout=0.5) is None


def test_persistent_messages_survive_kill_9(tmp_path: Path) -> None:
    broker = ActiveMQ(tmp_path, name="crash")
    broker.start()
    with StompClient(broker, "clients") as client:
        client.connect()
        for number in range(50):
            answer = client.send("pc.in.t3.heating", str(number).encode(), persistent="true")
            assert answer.command == "RECEIPT"
    broker.kill()
    broker.start()
    try:
        with StompClient(broker, "agents") as agent:
            agent.connect()
            agent.subscribe("pc.in.t3.heating")
            bodies = [message.body for _ in range(50) if (message := agent.receive())]
    finally:
        broker.stop()
    assert bodies == [str(number).encode() for number in range(50)]


def test_a_full_store_is_an_error_and_does_not_block(tmp_path: Path) -> None:
    broker = ActiveMQ(tmp_path, name="full", store_limit="1 mb")
    broker.start()
    answers = []
    try:
        with StompClient(broker, "clients") as client:
            client.connect()
            body = b"x" * 200_000
            for _ in range(40):
                answers.append(client.send("pc.in.t4.heating", body, persistent="true").command)
                if answers[-1] == "ERROR":
                    break
    finally:
        broker.stop()
    assert answers[-1] == "ERROR"


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return make_certificates(tmp_path)


def test_a_tls_broker_demands_a_certificate_that_it_trusts(
    tmp_path: Path, certificates: Certificates
) -> None:
    broker = ActiveMQ(
        tmp_path / "broker", name="tls", tls=certificates.server, probe_tls=certificates.client
    )
    broker.start()
    try:
        assert broker.ready()
        entry = broker.entry("agents")
        assert entry["tls"] == {
            "ca": certificates.client.ca,
            "certificate": certificates.client.certificate,
            "key": certificates.client.key,
        }
        account = {"login": "control", "passcode": broker.accounts["control"]}
        assert not probe.connected(broker.host, broker.port, **account)
        assert not probe.connected(
            broker.host, broker.port, **account, tls=certificates.stranger, timeout=1.0
        )
        context = ssl.create_default_context(cafile=certificates.client.ca)
        with pytest.raises(OSError), StompClient(broker, "control", context=context) as bare:
            bare.connect()
    finally:
        broker.stop()


def test_a_development_broker_starts_with_one_command_and_stops_cleanly(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "tasks.local.activemq", "--folder", str(tmp_path), "--name", "x"]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(5)]
        named = {line.partition(":")[0] for line in lines[:-1]}
        assert named == {"control", "agents", "clients", "comparators"}
        assert "answers on 127.0.0.1:" in lines[-1]
        broker = BrokersFile.load(tmp_path / "brokers-control.json").control_broker()
        assert probe.connected(
            broker.host, broker.port, login=broker.login, passcode=broker.passcode
        )
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
        assert not probe.connected(
            broker.host, broker.port, login=broker.login, passcode=broker.passcode
        )
    finally:
        process.kill()
        process.communicate()
