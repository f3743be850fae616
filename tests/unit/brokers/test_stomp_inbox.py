"""The bounded queue of messages that came and were not taken yet."""

from __future__ import annotations

from brokers.adapters.stomp_inbox import Inbox
from brokers.ports import Message


def _message(body: bytes) -> Message:
    return Message("q", body, {}, lambda: None)


def test_beyond_its_bytes_everything_of_that_source_is_dropped_until_asked_again() -> None:
    inbox = Inbox(10)
    assert inbox.put("one", _message(b"12345"))
    assert inbox.put("two", _message(b"12345"))
    assert not inbox.put("one", _message(b"x"))
    # Small enough by now, but an acknowledgement of it would speak for what was dropped.
    assert [m.body for m in inbox.take(1, 0)] == [b"12345"]
    assert not inbox.put("one", _message(b""))
    assert inbox.put("two", _message(b"12"))
    assert inbox.drained() == set()
    assert len(inbox.take(9, 0)) == 2
    assert inbox.drained() == {"one"}
    assert inbox.drained() == set()
    assert inbox.put("one", _message(b"x"))


def test_a_message_larger_than_the_bound_passes_alone() -> None:
    inbox = Inbox(10)
    assert inbox.put("one", _message(b"x" * 100))
    assert not inbox.put("two", _message(b"x"))
    assert len(inbox.take(9, 0)) == 1
    assert inbox.drained() == {"two"}


def test_what_is_forgotten_leaves_room() -> None:
    inbox = Inbox(4)
    assert inbox.put("one", _message(b"1234"))
    assert not inbox.put("one", _message(b"5"))
    inbox.forget(lambda message: message.body == b"1234", lambda source: source == "one")
    assert inbox.drained() == set()
    assert inbox.put("one", _message(b"1234"))
    inbox.close()
    assert inbox.take(1, 5) == []
