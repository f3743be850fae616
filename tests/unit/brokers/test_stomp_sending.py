"""What the transport sends is asked for when it can be written, and not before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from brokers.adapters.stomp import BrokerConfig, StompTransport
from brokers.ports import Outgoing


class Line:
    """Stands in the place of a connection that is there after a while."""

    def __init__(self, transport: StompTransport) -> None:
        self.happened: list[str] = []
        transport._current = self._connected  # type: ignore[method-assign, assignment]

    def _connected(self, _: float) -> Any:
        self.happened.append("connected")
        return self

    def send(self, messages: Iterable[Outgoing], *, timeout: float) -> None:
        self.happened += [message.queue for message in messages]


@pytest.fixture
def transport() -> StompTransport:
    return StompTransport(BrokerConfig("127.0.0.1", 1, "agents", "x"), name="test")


def test_messages_are_asked_for_once_there_is_a_connection(transport: StompTransport) -> None:
    line = Line(transport)

    def messages() -> Iterator[Outgoing]:
        line.happened.append("asked")
        yield Outgoing("pc.one", b"")
        raise LookupError

    with pytest.raises(LookupError):
        transport.send_many(messages())
    assert line.happened == ["connected", "asked"]


def test_a_list_is_checked_before_and_nothing_needs_no_connection(
    transport: StompTransport,
) -> None:
    line = Line(transport)
    transport.send_many([])
    with pytest.raises(ValueError, match="not a queue name"):
        transport.send_many([Outgoing("pc.one", b""), Outgoing("pc.>", b"")])
    assert line.happened == []
    transport.send_many([Outgoing("pc.one", b""), Outgoing("pc.two", b"")])
    assert line.happened == ["connected", "pc.one", "pc.two"]
