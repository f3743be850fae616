"""The port to the server, and its adapter for HTTP with the standard library."""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlencode

from brokers.policyctl.config import Target
from brokers.policyctl.errors import Exit, Stop

API = "/api/v1"
CHUNK = 2**16
MAX_ANSWER = 2**30

Query = Sequence[tuple[str, str]]
# Bytes that came so far, and how many there will be if the server said so.
Progress = Callable[[int, int | None], None]


@dataclass(frozen=True)
class Call:
    """One request.

    Args:
        method: GET or POST.
        path: below `/api/v1`.
        query: parameters, in order.
        body: what is sent, None for nothing.
        headers: beside the token.
    """

    method: str
    path: str
    query: Query = ()
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """What came back; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Read the body.

        Raises:
            Stop: it is no JSON: something else answers there.
        """
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise Stop(Exit.ERROR, "the answer is no JSON; is this a Portcullis?") from error


class Transport(Protocol):
    """What commands need of the network."""

    def send(self, call: Call, progress: Progress | None = None) -> Answer:
        """Send a request and wait for the whole answer.

        Raises:
            Stop: `UNREACHABLE` when no answer comes.
        """
        ...


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect could lead the token to somebody else."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class HttpTransport:
    """Speaks HTTP; the server's certificate is checked.

    Args:
        target: server and token.
        timeout: seconds without a byte after which the server is given up.
    """

    def __init__(self, target: Target, *, timeout: float = 60.0) -> None:
        self._target = target
        self._timeout = timeout
        self._opener = urllib.request.build_opener(
            _NoRedirects, urllib.request.HTTPSHandler(context=_context(target))
        )

    def send(self, call: Call, progress: Progress | None = None) -> Answer:
        """Send one request."""
        try:
            with self._opener.open(self._request(call), timeout=self._timeout) as answer:
                return Answer(answer.status, _names(answer.headers), _read(answer, progress))
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, _names(error.headers), _read(error, None))
        except urllib.error.URLError as error:
            reason = getattr(error.reason, "strerror", None) or str(error.reason)
            raise self._unreachable(reason) from error
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(str(error) or type(error).__name__) from error

    def _request(self, call: Call) -> urllib.request.Request:
        query = f"?{urlencode(list(call.query))}" if call.query else ""
        request = urllib.request.Request(  # noqa: S310 - the scheme is https, or loopback
            f"{self._target.server}{API}{call.path}{query}", data=call.body, method=call.method
        )
        request.add_header("User-Agent", "policyctl")
        request.add_header("Accept", "*/*")
        for name, value in call.headers.items():
            request.add_header(name, value)
        # Unredirected: urllib sends it to this address and to no other.
        request.add_unredirected_header("Authorization", f"Bearer {self._target.token}")
        return request

    def _unreachable(self, reason: str) -> Stop:
        return Stop(Exit.UNREACHABLE, f"{self._target.server} does not answer: {reason}")


def _context(target: Target) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=None if target.ca is None else str(target.ca))
    except (OSError, ssl.SSLError) as error:
        raise Stop(Exit.ERROR, f"{target.ca} holds no certificates to trust") from error


def _names(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _read(answer: Any, progress: Progress | None) -> bytes:
    length = answer.headers.get("Content-Length", "")
    total = int(length) if length.isdecimal() else None
    data = bytearray()
    while chunk := answer.read(CHUNK):
        data += chunk
        if len(data) > MAX_ANSWER:
            raise Stop(Exit.ERROR, f"the answer has more than {MAX_ANSWER} bytes")
        if progress is not None:
            progress(len(data), total)
    if total is not None and len(data) < total:
        raise Stop(Exit.UNREACHABLE, "the answer broke off")
    return bytes(data)
