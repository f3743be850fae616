"""One webhook's way out: where it goes, and that nobody can hold it up."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from adminapp.webhooks import sending
from adminapp.webhooks.addresses import NotAllowed, parse, resolve
from tests.support.certificates import make_certificates
from tests.support.receiver import Receiver, inbox, receiver

__all__ = ["inbox"]

GIVEN: Final[dict[str, Any]] = {
    "secret": b"s" * 32,
    "message_id": "m",
    "timestamp": 1,
    "body": b"{}",
}


def test_answers_are_bounded_in_size_and_time(
    inbox: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox.answer = b"x" * (sending.MAX_ANSWER + 1)
    assert "more than" in sending.send(inbox.url, **GIVEN).error
    monkeypatch.setattr(sending, "DEADLINE", 0.3)
    inbox.drip = 5.0
    before = time.monotonic()
    outcome = sending.send(inbox.url, **GIVEN)
    # Cut long before the answer was there, of which a part came every few seconds.
    assert time.monotonic() - before < 4 * inbox.drip
    assert outcome.error == "it does not answer in time"


def test_a_time_that_is_up_before_there_is_a_connection_ends_it_too(
    inbox: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()
    cut, connect = sending._cut, sending._Pinned.connect

    def cut_early(connection: Any) -> None:
        assert connection.opened is None
        cut(connection)
        over.set()

    def connect_late(connection: Any) -> None:
        assert over.wait(60)
        connect(connection)

    monkeypatch.setattr(sending, "DEADLINE", 0)
    monkeypatch.setattr(sending, "_cut", cut_early)
    monkeypatch.setattr(sending._Pinned, "connect", connect_late)
    assert sending.send(inbox.url, **GIVEN).error == "it does not answer in time"
    assert not inbox.received


def test_only_who_is_trusted_is_told_over_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_certificates(tmp_path).server
    key, own, _ = pkcs12.load_key_and_certificates(
        made.keystore.read_bytes(), made.password.encode()
    )
    held = tmp_path / "server.pem"
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    written = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    held.write_bytes(written + own.public_bytes(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(held)
    with receiver(context) as inbox:
        url = inbox.url.replace("http:", "https:")
        assert sending.send(url, **GIVEN).error.startswith("no trusted connection: CERTIFICATE")
        assert not inbox.received
        trusting = ssl.create_default_context(cafile=tmp_path / "ca.pem")
        monkeypatch.setattr(sending.ssl, "create_default_context", lambda: trusting)
        assert sending.send(url, **GIVEN).delivered
        assert sending.send(url.replace("127.0.0.1", "localhost"), **GIVEN).error.startswith("no t")
        assert len(inbox.received) == 1


def test_a_handshake_that_never_ends_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Event()
    cut = sending._cut

    def cut_within(connection: Any) -> None:
        assert begun.wait(60)
        cut(connection)

    with socket.create_server(("127.0.0.1", 0)) as silent:

        def hear() -> None:
            with silent.accept()[0] as one:
                assert one.recv(1)
                begun.set()
                while one.recv(4096):
                    pass

        hearing = threading.Thread(target=hear)
        hearing.start()
        monkeypatch.setattr(sending, "TIMEOUT", 120.0)
        monkeypatch.setattr(sending, "DEADLINE", 0)
        monkeypatch.setattr(sending, "_cut", cut_within)
        url = f"https://127.0.0.1:{silent.getsockname()[1]}/"
        assert sending.send(url, **GIVEN).error == "it does not answer in time"
        hearing.join()


@pytest.mark.parametrize(
    "address", ["10.0.0.1", "127.0.0.1", "169.254.169.254", "::1", "fd00::1", "::ffff:10.1.1.1"]
)
def test_names_that_resolve_into_private_networks(
    address: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.WEBHOOK_LOOPBACK = False
    found = [(2, 1, 6, "", ("93.184.216.34", 443)), (2, 1, 6, "", (address, 443))]
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: found)
    with pytest.raises(NotAllowed):
        resolve(parse("https://hooks.example.com/"))
    assert "public network" in sending.send("https://hooks.example.com/", **GIVEN).error


def test_the_connection_goes_where_was_looked(
    inbox: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that resolves to something else the second time gets nowhere with it."""
    answers = [[(2, 1, 6, "", ("127.0.0.1", inbox.port))], [(2, 1, 6, "", ("10.0.0.1", 80))]]
    asked: list[Any] = []

    def resolver(host: str, *_: Any, **__: Any) -> Any:
        if host in ("127.0.0.1", "10.0.0.1"):
            return [(2, 1, 6, "", (host, inbox.port))]
        asked.append(host)
        return answers[len(asked) - 1]

    monkeypatch.setattr("socket.getaddrinfo", resolver)
    url = inbox.url.replace("127.0.0.1", "localhost")
    assert sending.send(url, **GIVEN).delivered
    assert asked == ["localhost"]
    assert inbox.received[0].headers["host"] == f"localhost:{inbox.port}"
