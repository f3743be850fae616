"""One POST to an address outside: no redirects, bounded in time and size, signed."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import socket
import ssl
import threading
from base64 import b64encode
from contextlib import closing
from dataclasses import dataclass

from adminapp.webhooks.addresses import NotAllowed, Target, parse, resolve

# Seconds without a byte, and for all of it.
TIMEOUT = 10.0
DEADLINE = 20.0
MAX_ANSWER = 64 * 2**10


@dataclass(frozen=True)
class Outcome:
    """What became of an attempt.

    Args:
        status: of the answer, None when there was none.
        error: why it counts as failed, "" for a success.
    """

    status: int | None = None
    error: str = ""

    @property
    def delivered(self) -> bool:
        return not self.error


def signature(secret: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """As Standard Webhooks has it: HMAC-SHA256 over identifier, time and body."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()


def send(url: str, *, secret: bytes, message_id: str, timestamp: int, body: bytes) -> Outcome:
    """Deliver once; says what happened and raises nothing."""
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Portcullis-Webhooks",
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signature(secret, message_id, timestamp, body),
    }
    try:
        target = parse(url)
        return _post(target, resolve(target), headers, body)
    except NotAllowed as error:
        return Outcome(error=str(error))
    except TimeoutError:
        return Outcome(error="it does not answer in time")
    except ssl.SSLError as error:
        return Outcome(error=f"no trusted connection: {error.reason or 'TLS failed'}")
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Outcome(error=f"no connection: {type(error).__name__}")


def _post(target: Target, address: str, headers: dict[str, str], body: bytes) -> Outcome:
    connection = _Pinned(target, address)
    timer = threading.Timer(DEADLINE, _cut, (connection,))
    timer.daemon = True
    timer.start()
    try:
        with closing(connection):
            connection.request("POST", target.path, body, {"Host": target.authority, **headers})
            answer = connection.getresponse()
            size = len(answer.read(MAX_ANSWER + 1))
            connection.check_time()  # what was cut reads as an answer that ends early
    except (OSError, http.client.HTTPException, ValueError) as error:
        if connection.late.is_set():
            raise TimeoutError from error
        raise
    finally:
        timer.cancel()
    if size > MAX_ANSWER:
        return Outcome(answer.status, f"the answer has more than {MAX_ANSWER} bytes")
    if 200 <= answer.status < 300:
        return Outcome(answer.status)
    if 300 <= answer.status < 400:
        return Outcome(answer.status, "it redirects; redirects are not followed")
    return Outcome(answer.status, f"it answers {answer.status}")


def _cut(connection: _Pinned) -> None:
    """End an exchange that goes on for ever, a byte at a time."""
    connection.late.set()
    if connection.opened is not None:
        try:
            connection.opened.shutdown(socket.SHUT_RDWR)
        except OSError:
            return


class _Pinned(http.client.HTTPConnection):
    """A connection to the address that was looked at, whatever its name resolves to by now."""

    def __init__(self, target: Target, address: str) -> None:
        super().__init__(target.host, target.port, timeout=TIMEOUT)
        self._target = target
        self._address = address
        # `sock` is taken away before the answer was read, where the connection ends with it.
        self.opened: socket.socket | None = None
        self.late = threading.Event()

    def check_time(self) -> None:
        """Raises TimeoutError where its time is up."""
        if self.late.is_set():
            raise TimeoutError

    def connect(self) -> None:
        """Connect, with the certificate checked against the name."""
        self.sock = self.opened = socket.create_connection(
            (self._address, self._target.port), TIMEOUT
        )
        if self._target.secure:
            context = ssl.create_default_context()
            # The handshake apart: it is cut too, where it goes on for ever.
            self.sock = self.opened = context.wrap_socket(
                self.sock, server_hostname=self._target.host, do_handshake_on_connect=False
            )
        self.check_time()  # it may have been up when there was nothing yet to cut
        if self._target.secure:
            self.sock.do_handshake()
