"""A real ActiveMQ on the configuration that is rendered from the administration model."""

from __future__ import annotations

import contextlib
import ssl
import time
from collections.abc import Iterator

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.x509.oid import NameOID

from adminapp.distribution.standing import Standing, StandingAgent, StandingClient
from brokers.adapters.stomp import Outgoing, StompTransport, TransportError
from tasks.local.activemq import TlsClient
from tests.support.certificates import Issuer, named
from tests.support.data_plane import PATIENCE, wait_until
from tests.support.rendered import Rendered
from tests.support.stomp_client import StompClient

pytestmark = pytest.mark.activemq

HOMES = (("a", "alpha"),)
MODEL = Standing(
    (
        StandingAgent("alpha", "a", ("flights",)),
        StandingAgent("beta", "a", ("flights",)),
        StandingAgent("gamma", "a", ("heating",)),
    ),
    (
        StandingClient("p-1", "", "flights", HOMES),
        StandingClient("p-2", "", "flights", (("a", "beta"),)),
        StandingClient("p-3", "CN=Zoe O'Neil,O=Tower,C=IE", "flights", HOMES),
    ),
)


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rendered]:
    folder = tmp_path_factory.mktemp("rendered")
    issuer = Issuer(tmp_path_factory.mktemp("issuer"))
    names = {
        "control": named("control", "control"),
        **{agent: named(agent, "agents") for agent in ("alpha", "beta", "gamma", "delta")},
        **{handle: named(handle, "clients") for handle in ("p-1", "p-2")},
        "confused": named("alpha", "clients"),
    }
    certificates = {who: issuer.issue(name) for who, name in names.items()}
    certificates["p-3"] = issuer.issue(_zoe(), ed25519.Ed25519PrivateKey.generate())
    # The same name under an authority that the broker does not know.
    other = tmp_path_factory.mktemp("other")
    forged = Issuer(other).issue(named("alpha", "agents"))
    certificates["forged"] = TlsClient(certificates["alpha"].ca, forged.certificate, forged.key)
    made = Rendered(folder, issuer, certificates)
    with made.running(MODEL):
        yield made


def _zoe() -> x509.Name:
    parts = [
        (NameOID.COUNTRY_NAME, "IE"),
        (NameOID.ORGANIZATION_NAME, "Tower"),
        (NameOID.COMMON_NAME, "Zoe O'Neil"),
    ]
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in parts])


def test_right_certificates_are_let_in_and_wrong_ones_are_not(rendered: Rendered) -> None:
    for who in ("control", "alpha", "beta", "gamma", "p-1", "p-2", "p-3"):
        assert rendered.connected(who), who
    # Of our authority but unknown to the model; an agent's name as a client; another authority.
    for who in ("delta", "confused", "forged"):
        assert not rendered.connected(who), who
    bare = ssl.create_default_context(cafile=rendered.certificates["p-1"].ca)
    with pytest.raises(OSError), StompClient(rendered, "p-1", context=bare) as client:  # type: ignore[arg-type]
        client.connect()
    with pytest.raises(OSError), StompClient(rendered, "p-1") as plain:  # type: ignore[arg-type]
        plain.connect()


IN, HOP, AGAIN = "pc.in.{}.flights", "pc.hop.{}.flights", "pc.again.{}.flights"


@pytest.mark.parametrize(
    ("who", "verb", "queue", "allowed"),
    [
        ("alpha", "subscribe", IN.format("alpha"), True),
        ("alpha", "subscribe", HOP.format("alpha"), True),
        ("alpha", "subscribe", AGAIN.format("alpha"), True),
        ("alpha", "subscribe", "pc.dead.alpha", True),
        ("alpha", "subscribe", "pc.control.agent.alpha", True),
        ("alpha", "send", HOP.format("beta"), True),
        ("alpha", "send", "pc.deliver.p-1", True),
        ("alpha", "send", "pc.requests", True),
        ("alpha", "subscribe", IN.format("beta"), False),
        ("alpha", "subscribe", HOP.format("beta"), False),
        ("alpha", "subscribe", "pc.dead.beta", False),
        ("alpha", "subscribe", "pc.control.agent.beta", False),
        ("alpha", "subscribe", "pc.deliver.p-1", False),
        ("alpha", "send", "pc.deliver.p-2", False),
        ("alpha", "send", IN.format("alpha"), False),
        ("alpha", "send", "pc.control.agent.beta", False),
        ("alpha", "send", "pc.in.alpha.heating", False),
        ("gamma", "send", HOP.format("beta"), False),
        ("p-1", "subscribe", "pc.deliver.p-1", True),
        ("p-1", "subscribe", "pc.control.client.p-1", True),
        ("p-1", "send", IN.format("alpha"), True),
        ("p-1", "send", "pc.requests", True),
        ("p-3", "subscribe", "pc.deliver.p-3", True),
        ("p-1", "subscribe", "pc.deliver.p-2", False),
        ("p-1", "subscribe", "pc.control.client.p-2", False),
        ("p-1", "subscribe", IN.format("alpha"), False),
        ("p-1", "subscribe", "pc.requests", False),
        ("p-1", "send", IN.format("beta"), False),
        ("p-1", "send", "pc.deliver.p-1", False),
        ("p-1", "send", "brand.new", False),
        ("p-1", "subscribe", "DLQ.pc.deliver.p-2", False),
        ("p-1", "subscribe", "ActiveMQ.Statistics.Broker", False),
    ],
)
def test_each_may_do_what_the_model_says(
    rendered: Rendered, who: str, verb: str, queue: str, allowed: bool
) -> None:
    with rendered.client(who) as client:
        assert client.connect().command == "CONNECTED"
        answer = client.send(queue, b"x") if verb == "send" else client.subscribe(queue)
    assert answer.command == ("RECEIPT" if allowed else "ERROR"), answer


@pytest.mark.parametrize(
    "queue",
    [
        ">", "*", "pc.>", "pc.*", "pc.*.*", "pc.deliver.>", "pc.deliver.*", "*.deliver.p-2",
        "pc.*.p-2", "pc.control.client.>", "pc.control.*.p-2", "pc.deliver.p-1,pc.deliver.p-2",
        "pc.deliver.p-2,pc.deliver.p-1", "pc.deliver.p-1,topic://x",
        "pc.deliver.p-2?consumer.exclusive=true",
        "queue://pc.deliver.p-2", "pc.deliver.p-2,>",
    ],
)  # fmt: skip
def test_wildcards_and_composites_read_nothing_of_others(rendered: Rendered, queue: str) -> None:
    """Whether it is refused or reads what is one's own alone: nothing of others comes."""
    got: list[str] = []
    with rendered.client("beta") as beta, rendered.client("p-2") as owner:
        assert beta.connect().command == owner.connect().command == "CONNECTED"
        with rendered.client("p-1") as spy, contextlib.suppress(ConnectionError):
            assert spy.connect().command == "CONNECTED"
            spy.subscribe(queue)
            assert beta.send("pc.deliver.p-2", b"for p-2 alone").command == "RECEIPT"
            with contextlib.suppress(AssertionError):  # an ERROR that came late
                while (message := spy.receive(timeout=0.4)) is not None:
                    got.append(message.headers["destination"])
        assert set(got) <= {"/queue/pc.deliver.p-1"}
        assert owner.subscribe("pc.deliver.p-2").command == "RECEIPT"
        message = owner.receive()
        assert message is not None
        assert message.body == b"for p-2 alone"


def test_a_composite_destination_sends_nothing_to_others(rendered: Rendered) -> None:
    with contextlib.suppress(ConnectionError), rendered.client("p-1") as client:
        assert client.connect().command == "CONNECTED"
        client.send("pc.in.alpha.flights,pc.in.beta.flights", b"smuggled")
    with rendered.client("beta") as beta:
        assert beta.connect().command == "CONNECTED"
        assert beta.subscribe("pc.in.beta.flights").command == "RECEIPT"
        assert beta.receive(timeout=0.5) is None


def _send_without_end(client: StompClient) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        client._socket.sendall(b"x" * 2**20)


def test_too_large_a_frame_and_endless_headers_are_refused(rendered: Rendered) -> None:
    with rendered.client("p-1") as client:
        assert client.connect().command == "CONNECTED"
        with contextlib.suppress(OSError):
            answer = client.send("pc.in.alpha.flights", b"x" * (17 * 2**20))
            assert answer.command == "ERROR"
    # Buffers and a busy broker swallow any number of bytes; that it ends is what counts.
    with (
        rendered.client("p-1") as endless,
        pytest.raises((ConnectionError, ssl.SSLError)),
    ):
        _send_without_end(endless)
    with rendered.client("p-1") as silent:
        silent._socket.settimeout(PATIENCE)
        assert silent._socket.recv(1) == b""  # closed, for it never said anything
    assert rendered.connected("p-1")


def test_malformed_frames_give_nothing_and_harm_nobody(rendered: Rendered) -> None:
    target = "destination:/queue/pc.in.alpha.flights\n"
    frames = [
        b"\0" * 1000,
        b"NONSENSE\n\n\0",
        b"SEND\n\nno destination\0",
        b"SEND\ndestination:\n\nx\0",
        f"SEND\n{target}content-length:-5\n\nx\0".encode(),
        f"SEND\n{target}content-length:nonsense\n\nx\0".encode(),
        f"SEND\n{target}content-length:99999999999\n\nx\0".encode(),
        f"SEND\n{target}{'h:x' * 40_000}\n\nx\0".encode(),
        b"SUBSCRIBE\nid:x\n\n\0",
        b"SUBSCRIBE\ndestination:/queue/pc.deliver.p-2\n\n\0",
        b"ACK\nid:nothing\n\n\0",
        b"BEGIN\n\n\0",
        b"COMMIT\ntransaction:none\n\n\0",
        b"CONNECT\naccept-version:1.2\nhost:x\nlogin:control\npasscode:x\n\n\0",
    ]
    became: set[str] = set()
    for frame in frames:
        with rendered.client("p-1") as client:
            assert client.connect().command == "CONNECTED"
            client._socket.settimeout(0.5)
            with contextlib.suppress(OSError):
                client._socket.sendall(frame)
                answer = client._read()
                assert answer.command in {"ERROR", "CONNECTED"}, (frame[:60], answer)
            # Whatever it did to its connection, it became nobody else.
            with contextlib.suppress(OSError):
                client._socket.settimeout(5)
                became.add(client.subscribe("pc.requests").command)
    assert "RECEIPT" not in became
    with rendered.client("alpha") as alpha:
        assert alpha.connect().command == "CONNECTED"
        assert alpha.subscribe("pc.in.alpha.flights").command == "RECEIPT"
        while (message := alpha.receive(timeout=0.5)) is not None:
            assert message.body in {b"x", b""}


def test_a_full_store_refuses_and_the_control_queues_still_work(rendered: Rendered) -> None:
    transport, control = rendered.transport("alpha"), rendered.transport("control")
    transport.connect()
    control.connect()
    body = b"x" * 1_000_000
    try:
        with pytest.raises(TransportError) as full:
            _fill(transport, Outgoing("pc.deliver.p-3", body))
        assert full.value.refused
        control.send("pc.control.agent.beta", b"y" * 100_000)
        _drain(rendered.transport("p-3"), "pc.deliver.p-3")
        wait_until(lambda: _accepted(transport), "room after the queue was read")
    finally:
        transport.close()
        control.close()


def _fill(transport: StompTransport, message: Outgoing) -> None:
    for _ in range(100):
        transport.send_many([message], timeout=PATIENCE)


def _drain(reader: StompTransport, queue: str) -> None:
    reader.connect()
    reader.subscribe(queue, prefetch=20)
    while messages := reader.receive_many(20, 5.0):
        reader.ack_many(messages)
    reader.close()


def _accepted(transport: StompTransport) -> bool:
    try:
        transport.send_many([Outgoing("pc.deliver.p-1", b"small")], timeout=30)
    except TransportError:
        return False
    return True


def test_who_is_revoked_is_out_without_a_restart_and_a_moved_client_is_served(
    rendered: Rendered,
) -> None:
    moved = StandingClient("p-3", MODEL.clients[2].certificate_subject, "flights", (("a", "beta"),))
    later = Standing(
        tuple(one for one in MODEL.agents if one.name != "gamma"),
        (MODEL.clients[0], moved),
    )
    assert rendered.connected("p-2")
    assert rendered.connected("gamma")
    rendered.render(later)
    try:
        wait_until(lambda: not rendered.connected("p-2"), "p-2 to be out")
        assert not rendered.connected("gamma")
        with rendered.client("beta") as beta:
            assert beta.connect().command == "CONNECTED"
            assert beta.send("pc.deliver.p-3", b"from the new home").command == "RECEIPT"
        with rendered.client("alpha") as alpha:
            assert alpha.connect().command == "CONNECTED"
            assert alpha.send("pc.deliver.p-3", b"from the old home").command == "ERROR"
    finally:
        rendered.render(MODEL)
        wait_until(lambda: rendered.connected("p-2"), "p-2 to be back")
