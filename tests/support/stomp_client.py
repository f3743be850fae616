"""A STOMP client of a few lines, independent of the product's transport, for tests of brokers."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass, field
from types import TracebackType

from tasks.local.activemq import ActiveMQ


@dataclass(frozen=True)
class Frame:
    """One STOMP frame."""

    command: str
    headers: dict[str, str]
    body: bytes


@dataclass
class StompClient:
    """CONNECTs as `account`; every frame sent waits for its receipt or returns the ERROR."""

    broker: ActiveMQ
    account: str
    passcode: str | None = None
    timeout: float = 30.0
    context: ssl.SSLContext | None = None
    _buffer: bytes = b""
    _number: int = 0
    _messages: list[Frame] = field(default_factory=list)

    def __enter__(self) -> StompClient:
        plain = socket.create_connection((self.broker.host, self.broker.port), timeout=self.timeout)
        self._socket = plain
        if self.context:
            self._socket = self.context.wrap_socket(plain, server_hostname=self.broker.host)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()

    def connect(self) -> Frame:
        """Send CONNECT; CONNECTED or ERROR."""
        headers = {
            "accept-version": "1.2",
            "host": self.broker.host,
            "login": self.account,
            "passcode": self.passcode or self.broker.accounts[self.account],
        }
        self._write("CONNECT", headers, b"")
        return self._read()

    def send(self, queue: str, body: bytes, **headers: str) -> Frame:
        """SEND with a receipt; RECEIPT or ERROR."""
        fields = {"destination": f"/queue/{queue}", "content-length": str(len(body)), **headers}
        return self._with_receipt("SEND", fields, body)

    def subscribe(self, queue: str, *, ack: str = "auto", **headers: str) -> Frame:
        """SUBSCRIBE with a receipt; RECEIPT or ERROR."""
        fields = {"destination": f"/queue/{queue}", "id": queue, "ack": ack, **headers}
        return self._with_receipt("SUBSCRIBE", fields, b"")

    def receive(self, *, timeout: float = 30.0) -> Frame | None:
        """The next MESSAGE, or None when none comes within `timeout` seconds."""
        if self._messages:
            return self._messages.pop(0)
        self._socket.settimeout(timeout)
        try:
            frame = self._read()
        except TimeoutError:
            return None
        finally:
            self._socket.settimeout(self.timeout)
        assert frame.command == "MESSAGE", frame
        return frame

    def _with_receipt(self, command: str, headers: dict[str, str], body: bytes) -> Frame:
        self._number += 1
        self._write(command, {**headers, "receipt": str(self._number)}, body)
        while (frame := self._read()).command == "MESSAGE":
            self._messages.append(frame)
        return frame

    def _write(self, command: str, headers: dict[str, str], body: bytes) -> None:
        head = "".join(f"{name}:{value}\n" for name, value in headers.items())
        self._socket.sendall(f"{command}\n{head}\n".encode() + body + b"\0")

    def _read(self) -> Frame:
        while True:
            self._buffer = self._buffer.lstrip(b"\n")
            head, blank, rest = self._buffer.partition(b"\n\n")
            if blank:
                command, *lines = head.decode().split("\n")
                headers = dict(line.split(":", 1) for line in lines)
                size = int(headers.get("content-length", rest.find(b"\0")))
                if size >= 0 and len(rest) > size:
                    self._buffer = rest[size + 1 :]
                    return Frame(command, headers, rest[:size])
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionError("the broker closed the connection")
            self._buffer += data
