"""The comparator as a process of its own, and the same port in memory."""

from __future__ import annotations

import os
import random as order
import signal
import socket
import stat
import threading
import time
from itertools import pairwise

import pytest

from brokers.adapters.brokers_file import ConfigurationError
from brokers.adapters.comparator_client import SocketComparator
from brokers.adapters.comparator_frames import MAX_FRAME
from brokers.adapters.files import StateError
from brokers.comparator.config import ComparatorConfig
from brokers.comparator.keyring import Keyring
from brokers.comparator.server import ComparatorServer
from brokers.ports import ComparatorAway
from policyengine.attributes import AttributeType, evaluate, parse
from policyengine.bundles import ComparatorContent, OpenedBundle, OrderKey, TrustedState
from policyengine.errors import DecryptionError, RejectedError
from policyengine.events import AttributeSpec, EventTypes, TypeSpec
from policyengine.ope import (
    KeyringComparator,
    Question,
    RangeCipher,
    RangeIndex,
    RangeKey,
    Slot,
    questions_to_bytes,
)
from policyengine.primitives.canonical import pack
from policyengine.primitives.rand import SeededRandom
from tests.support import bundle_samples as samples
from tests.support.comparators import ComparatorProcess, MemoryComparator
from tests.support.data_plane import wait_until

NUMBER = AttributeType("int")
ORDERED = {"a1": NUMBER, "a2": NUMBER, "name": AttributeType("string")}
TYPES = EventTypes(
    [
        TypeSpec(
            "T", None,
            tuple(AttributeSpec(n, t, (), "confidential", "order-preserving")
                  for n, t in ORDERED.items()),
        )
    ]
)  # fmt: skip
KEYS = [
    RangeKey.generate(Slot("flights", "T", name, 1), "sbm2", random=SeededRandom(name.encode()))
    for name in ORDERED
]
CIPHER = RangeCipher(TYPES, [(key, True) for key in KEYS])
# paper 003, Table 1 and 2
TABLE_1 = {
    "s1": "a1 >= 10 && a2 >= 19",
    "s2": "a1 >= 13 && a2 >= 55",
    "s3": "a1 >= 10 && a2 >= 85",
    "s4": "a1 >= 23 && a2 >= 19",
    "s5": "a1 >= 17 && a2 >= 32",
    "s6": "a1 >= 75 && a2 >= 22",
}
TABLE_2 = [({"a1": 20, "a2": 19}, {"s1"}), ({"a1": 33, "a2": 44}, {"s1", "s4", "s5"})]


def wanted(text):
    return CIPHER.encrypt_filter("T", parse(text, ORDERED))


def ciphertext(value):
    return CIPHER.encrypt_values("T", {"a1": value}).events[0].values[0]


def question(value, *pivots):
    column, needle = ciphertext(value)
    return Question(column, needle, tuple(ciphertext(pivot)[1] for pivot in pivots))


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    process = ComparatorProcess(tmp_path_factory.mktemp("comparator"), KEYS)
    process.start()
    yield process
    process.end()


@pytest.fixture(params=["memory", "process"])
def comparator(request, running):
    if request.param == "memory":
        yield MemoryComparator(key.comparator_key() for key in KEYS)
        return
    client = running.client()
    yield client
    client.close()


# the port


def test_the_worked_example_of_the_paper(comparator):
    index = RangeIndex(comparator)
    index.replace({name: wanted(text) for name, text in TABLE_1.items()})
    for event, expected in TABLE_2:
        assert index.match(CIPHER.encrypt_values("T", event)) == expected


def test_it_meets_what_plain_filters_meet(comparator):
    draw = order.Random(7)
    texts = {}
    for number in range(60):
        low = draw.randrange(100)
        texts[f"n{number}"] = draw.choice(
            [
                f"a1 >= {low} && a1 < {low + draw.randrange(1, 60)} && a2 != {draw.randrange(100)}",
                f"a1 == {low} || a2 > {draw.randrange(100)}",
                f"name startsWith '{draw.choice('abc')}' && a1 > {low}",
                f"name endsWith '{draw.choice('abc')}' && a2 <= {low}",
            ]
        )
    index = RangeIndex(comparator)
    index.replace({name: wanted(text) for name, text in texts.items()})
    plain = {name: parse(text, ORDERED) for name, text in texts.items()}
    for _ in range(40):
        event = {"a1": draw.randrange(110), "a2": draw.randrange(110)}
        if draw.random() < 0.7:
            event["name"] = "".join(draw.choices("abc", k=3))
        expected = {name for name, expression in plain.items() if evaluate(expression, event)}
        assert index.match(CIPHER.encrypt_values("T", event)) == expected


def test_questions_of_several_frames_are_answered_in_order(comparator):
    pivots = tuple(ciphertext(value)[1] for value in range(100))
    column = ciphertext(0)[0]
    needles = [value % 100 for value in range(150)]
    asked = [Question(column, pivots[value], pivots) for value in needles]
    assert list(comparator.compare(asked)) == [2 * value + 1 for value in needles]
    assert list(comparator.compare([])) == []


def test_a_column_without_a_key_waits(comparator):
    other = RangeKey.generate(Slot("flights", "T", "a1", 2), "sbm2")
    cipher = RangeCipher(TYPES, [(other, True)])
    column, needle = cipher.encrypt_values("T", {"a1": 1}).events[0].values[0]
    with pytest.raises(ComparatorAway):
        comparator.compare([Question(column, needle, ())])
    assert list(comparator.compare([question(5, 4)])) == [2]


def test_what_does_not_open_is_refused(comparator):
    column, needle = ciphertext(5)
    with pytest.raises(DecryptionError):
        comparator.compare([Question(column, needle[:-1], ())])
    assert list(comparator.compare([question(5, 5)])) == [1]


# the process


def test_only_its_user_can_reach_the_socket(running):
    mode = running.socket.lstat().st_mode
    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600


def connected(process):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(10)
    connection.connect(str(process.socket))
    return connection


def frame(body):
    return len(body).to_bytes(4, "big") + body


def everything(connection):
    """What comes until the end, which may be a reset where something was left unread."""
    found = b""
    try:
        while chunk := connection.recv(65_536):
            found += chunk
    except ConnectionResetError:
        pass
    return found


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00\x00\x00\x00",
        (MAX_FRAME + 1).to_bytes(4, "big"),
        b"\xff\xff\xff\xff" + b"x" * 1000,
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_a_frame_of_impossible_length_ends_the_connection(running, sent):
    with connected(running) as connection:
        connection.sendall(sent)
        assert everything(connection) == b""


@pytest.mark.parametrize(
    "body",
    [
        b"\x00",
        b"\x01",
        b"\x02" + questions_to_bytes([question(1)]),
        b"\x01\x02",
        b"\x01\x01" + pack(b"x"),
        b"\x01" + questions_to_bytes([Question("a1", b"", ())]),
        b"\x01" + questions_to_bytes([question(1, *[2] * 128)]),
        os.urandom(100_000),
    ],
)
def test_a_malformed_request_is_refused_with_a_word(running, body):
    with connected(running) as connection:
        connection.sendall(frame(body))
        assert everything(connection) == frame(b"\x01malformed")


def refuses(connection):
    """Whether one byte more is refused, because the other side is gone."""
    try:
        connection.sendall(b"x")
    except OSError:
        return True
    return False


def test_half_a_frame_stops_nobody_else_and_not_for_long(running):
    with connected(running) as slow, connected(running) as cut:
        slow.sendall(frame(b"x" * 100_000)[:50])
        cut.sendall(b"\x00\x00")
        cut.shutdown(socket.SHUT_WR)
        assert everything(cut) == b""
        client = running.client()
        assert client.compare([question(5, 4)]) == [2]
        client.close()
        # At this pace the frame would take half an hour: whoever ends it is the comparator.
        wait_until(lambda: refuses(slow), "the slow one to be cut off", 60)


def test_it_survives_kill_9_under_load(tmp_path):
    process = ComparatorProcess(tmp_path, KEYS)
    process.start()
    client = process.client()
    index = RangeIndex(client)
    texts = {f"f{low}": f"a1 >= {low} && a1 < {low + 50} && a2 > {low}" for low in range(0, 300, 7)}
    index.replace({name: wanted(text) for name, text in texts.items()})
    plain = {name: parse(text, ORDERED) for name, text in texts.items()}
    stopping, wrong, held = threading.Event(), [], []
    done = []

    def load():
        number = 0
        while not stopping.is_set():
            number += 1
            event = {"a1": number * 13 % 350, "a2": number * 29 % 350}
            values = CIPHER.encrypt_values("T", event)
            while True:
                try:
                    found = index.match(values)
                    break
                except ComparatorAway:
                    held.append(number)
                    time.sleep(0.01)
                except Exception as error:  # noqa: BLE001 - the test reports whatever it is
                    wrong.append((event, repr(error)))
                    return
            expected = {name for name, one in plain.items() if evaluate(one, event)}
            done.append(number)
            if found != expected:
                wrong.append((event, found ^ expected))

    thread = threading.Thread(target=load)
    thread.start()
    try:
        for _ in range(5):
            before = len(done)
            while len(done) < before + 20 and thread.is_alive():
                time.sleep(0.005)
            process.end(signal.SIGKILL)
            time.sleep(0.05)
            process.start()
        before = len(done)
        while len(done) < before + 20 and thread.is_alive():
            time.sleep(0.005)
    finally:
        stopping.set()
        thread.join(20)
        client.close()
    assert not wrong
    assert held, "no event had to wait"
    assert done == list(range(1, len(done) + 1))
    assert process.end() == 0
    assert not process.socket.exists()


def test_it_logs_and_keeps_no_key_and_no_value(running):
    client = running.client()
    client.compare([question(123_456_789, 987_654_321)])
    client.close()
    kept = b"".join(
        path.read_bytes() for path in running.folder.rglob("*") if path.is_file()
    )  # fmt: skip
    for key in KEYS:
        for secret in (key.secret, key.comparator_key().secret):
            assert secret not in kept
            assert secret.hex().encode() not in kept
    assert b"123456789" not in kept
    assert b"987654321" not in kept


def test_new_keys_are_there_after_a_start(tmp_path):
    process = ComparatorProcess(tmp_path, KEYS[1:])
    process.start()
    client = process.client()
    with pytest.raises(ComparatorAway):
        client.compare([question(5, 4)])
    process.end()
    process.install(KEYS, revision=2)
    process.start()
    assert client.compare([question(5, 4)]) == [2]
    client.close()
    process.end()


# the server in this process


@pytest.fixture
def inner():
    return KeyringComparator(key.comparator_key() for key in KEYS)


def test_another_user_is_not_answered(tmp_path, inner):
    path = tmp_path / "socket"
    server = ComparatorServer(path, inner, uids={os.geteuid() + 1})
    client = SocketComparator(path)
    with pytest.raises(ComparatorAway):
        client.compare([question(1)])
    client.close()
    server.close()


def test_the_socket_of_another_user_is_not_asked(tmp_path, inner):
    path = tmp_path / "socket"
    server = ComparatorServer(path, inner, uids={os.geteuid()})
    client = SocketComparator(path, uid=os.geteuid() + 1)
    with pytest.raises(ComparatorAway):
        client.compare([question(1)])
    server.close()


def answers(client):
    """Whether it answers."""
    try:
        client.compare([question(5, 4)])
    except ComparatorAway:
        return False
    return True


def test_one_connection_too_many_is_closed_and_a_free_one_is_used_again(tmp_path, inner):
    path = tmp_path / "socket"
    server = ComparatorServer(path, inner, uids={os.geteuid()}, connections=1)
    first, second = SocketComparator(path), SocketComparator(path)
    assert first.compare([question(5, 4)]) == [2]
    with pytest.raises(ComparatorAway):
        second.compare([question(5, 4)])
    first.close()
    wait_until(lambda: answers(second), "the connection to be free")
    assert second.compare([question(5, 4)]) == [2]
    second.close()
    server.close()


def test_a_socket_in_use_is_not_taken_over_and_another_file_not_removed(tmp_path, inner):
    path = tmp_path / "socket"
    server = ComparatorServer(path, inner, uids={os.geteuid()})
    with pytest.raises(StateError):
        ComparatorServer(path, inner, uids={os.geteuid()})
    server.close()
    path.write_text("precious")
    with pytest.raises(StateError):
        ComparatorServer(path, inner, uids={os.geteuid()})
    assert path.read_text() == "precious"


@pytest.mark.parametrize(
    "response", [b"\x00", b"\x00\x01", b"\x00\x01\x09", b"\x01other", b"\x02", b"\x00\x01\x00\x00"]
)
def test_an_answer_that_fits_no_question_is_not_believed(tmp_path, response):
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(path))
        listening.listen()

        def answer():
            connection, _ = listening.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(frame(response))

        thread = threading.Thread(target=answer)
        thread.start()
        client = SocketComparator(path, seconds=5)
        with pytest.raises(ComparatorAway):
            client.compare([question(1, 2)])
        client.close()
        thread.join(5)


# keys in force


def opened(content):
    header = samples.bundle(samples.agent_content())
    assert header.digest
    return OpenedBundle(header=None, content=content, digest=header.digest)


def content(*entries, name="beside"):
    return ComparatorContent("flights", name, entries)


def entry(key, state="current", **changes):
    slot = key.slot
    found = {"type": slot.type, "attribute": slot.attribute, "epoch": slot.epoch}
    return OrderKey(**{**found, **changes}, state=state, key=key.comparator_key().to_bytes())


STATE = TrustedState("comparator:beside")


def test_keys_of_epochs_that_are_over_open_nothing():
    ring = Keyring("beside")
    states = ("current", "draining", "retired")
    brought = content(*(entry(key, state) for key, state in zip(KEYS, states, strict=True)))
    ring.commit("flights", ring.prepare(opened(brought), STATE))
    assert set(ring.slots.values()) == {KEYS[0].slot, KEYS[1].slot}
    assert ring.compare([question(5, 4)]) == [2]
    ring.commit("flights", ring.prepare(opened(content()), STATE))
    assert not ring.slots
    assert ring.settled()()
    with pytest.raises(TypeError):
        ring.commit("flights", content())


@pytest.mark.parametrize(
    ("brought", "reason"),
    [
        (samples.agent_content(), "malformed"),
        (content(name="other"), "audience"),
        (content(OrderKey("T", "a1", 1, "current", b"k" * 32)), "malformed"),
        (content(entry(KEYS[0], attribute="a2")), "malformed"),
        (content(entry(KEYS[0], epoch=2)), "malformed"),
    ],
)
def test_a_bundle_with_anything_else_is_refused(brought, reason):
    with pytest.raises(RejectedError) as refused:
        Keyring("beside").prepare(opened(brought), STATE)
    assert refused.value.reason == reason


def test_a_configuration_is_strict(tmp_path):
    path = tmp_path / "comparator.toml"
    right = (
        'name = "beside"\nsocket = "s"\nstate = "state"\n'
        'brokers_file = "b.json"\nanchors_file = "a.json"\n'
    )
    path.write_text(right + "uids = [7]\n")
    loaded = ComparatorConfig.load(path)
    assert (loaded.socket, loaded.uids) == (tmp_path / "s", (7,))
    for text in (
        "name", right + "other = 1\n", right.replace("beside", "No Name"), right + "uids = []\n",
        right + 'uids = ["root"]\n', right + "lease_interval = 0\n", 'name = "x"\n',
    ):  # fmt: skip
        path.write_text(text)
        with pytest.raises(ConfigurationError):
            ComparatorConfig.load(path)
    with pytest.raises(ConfigurationError):
        ComparatorConfig.load(tmp_path / "none.toml")


def test_ciphertexts_show_no_order():
    shown = [ciphertext(value)[1] for value in range(200)]
    rising = sum(first < second for first, second in pairwise(shown))
    assert 60 < rising < 140
