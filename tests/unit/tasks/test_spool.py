"""The embedded transport: messages whole or absent, taken once, damage set aside."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from kombu import Connection, Exchange, Queue

from tasks import spool


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("messages", "control"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.fixture
def connection(folder: Path) -> Iterator[Connection]:
    with connect(folder) as made:
        yield made


def connect(folder: Path) -> Connection:
    spool.install()
    return Connection(
        "filesystem://localhost",
        transport_options={
            "data_folder_in": str(folder / "messages"),
            "data_folder_out": str(folder / "messages"),
            "control_folder": str(folder / "control"),
        },
    )


def queue(name: str) -> Queue:
    return Queue(name, Exchange(name), routing_key=name)


def test_the_alias_names_this_transport(connection: Connection) -> None:
    assert isinstance(connection.transport, spool.Transport)


def test_the_oldest_message_comes_first(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the clock's number has a digit more, and within one thousandth of a second."""
    moments = iter([9 * 10**18, 10**19 - 1, 10**19, 10**19 + 1])
    monkeypatch.setattr(spool, "time_ns", lambda: next(moments))
    with connection.SimpleQueue(queue("aged")) as one:
        for number in range(4):
            one.put({"key": number})
        taken = [one.get_nowait() for _ in range(4)]
        for message in taken:
            message.ack()
        assert [message.payload["key"] for message in taken] == [0, 1, 2, 3]


def test_a_message_comes_out_once_and_only_from_its_queue(
    connection: Connection, folder: Path
) -> None:
    with connection.SimpleQueue(queue("one")) as one, connection.SimpleQueue(queue("two")) as two:
        one.put({"key": "compile:1:1"})
        with pytest.raises(two.Empty):
            two.get_nowait()
        message = one.get_nowait()
        assert message.payload == {"key": "compile:1:1"}
        message.ack()
        with pytest.raises(one.Empty):
            one.get_nowait()
    assert list((folder / "messages").iterdir()) == []


def test_a_file_that_is_being_written_is_not_seen(connection: Connection, folder: Path) -> None:
    channel = connection.channel()
    (folder / "messages" / "1_x.one.msg.abc.partial").write_text("{")
    assert channel._size("one") == 0
    with pytest.raises(spool.Empty):
        channel._get("one")


def test_damage_is_set_aside_and_the_next_message_comes(
    connection: Connection, folder: Path
) -> None:
    channel = connection.channel()
    (folder / "messages" / f"{0:020d}_x.one.msg").write_text("")
    channel._put("one", {"body": 1})
    assert channel._get("one") == {"body": 1}
    (left,) = (folder / "messages").iterdir()
    assert left.name.endswith(".damaged")


def test_many_senders_and_takers_share_every_message_once(folder: Path) -> None:
    sent, each = 4, 100
    taken: Counter[int] = Counter()
    lock, done = threading.Lock(), threading.Event()

    def send(start: int) -> None:
        with connect(folder) as made:
            channel = made.channel()
            for number in range(start, start + each):
                channel._put("one", {"number": number})

    def take() -> None:
        with connect(folder) as made:
            channel = made.channel()
            while True:
                last = done.is_set()
                try:
                    payload = channel._get("one")
                except spool.Empty:
                    if last:
                        return
                    continue
                with lock:
                    taken[payload["number"]] += 1

    senders = [threading.Thread(target=send, args=(n * each,)) for n in range(sent)]
    takers = [threading.Thread(target=take) for _ in range(2)]
    for thread in (*senders, *takers):
        thread.start()
    for thread in senders:
        thread.join()
    done.set()
    for thread in takers:
        thread.join()
    assert taken == Counter(range(sent * each))


def test_bindings_of_many_at_once_are_all_kept(folder: Path) -> None:
    def bind(number: int) -> None:
        with connect(folder) as made:
            made.channel()._queue_bind("shared", f"key{number}", "", f"queue{number}")

    threads = [threading.Thread(target=bind, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with connect(folder) as made:
        rows = made.channel().get_table("shared")
    assert {row.queue for row in rows} == {f"queue{number}" for number in range(12)}
