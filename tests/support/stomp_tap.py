"""What an agent said and heard, read from the bytes that passed before its broker.

It knows the agent's own keys, and asks neither the agent nor the control plane: when a delivery
left the agent, and which lease it had been given by then, stands in the bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from brokers.adapters.files import Keys
from policyengine.bundles import (
    REQUESTS_QUEUE,
    audience,
    control_queue,
    decode_control,
    decode_framed,
    decode_request,
    delivery_queue,
    open_lease,
    verify_lease_request,
)
from policyengine.errors import DecodeError
from tests.support.tcp_proxy import BOTH, Piece, TcpProxy

_QUEUE = "/queue/"


@dataclass(frozen=True)
class Frame:
    """A frame of STOMP, and when it began to pass."""

    at: float
    command: str
    queue: str
    body: bytes


@dataclass(frozen=True)
class Given:
    """A lease that an agent was given.

    Args:
        asked: when its question passed.
        heard: when the answer passed.
        seconds: domain -> how long it holds, from the asking.
    """

    asked: float
    heard: float
    seconds: dict[str, int]


def frames(pieces: Iterable[Piece]) -> Iterator[Frame]:
    """The frames of one direction of one connection; what is not complete is left out."""
    data, starts = bytearray(), []
    for piece in pieces:
        starts.append((len(data), piece.at))
        data += piece.data
    place = moment = 0
    while True:
        while data[place : place + 1] in (b"\n", b"\r"):
            place += 1  # heart-beats
        end = data.find(b"\n\n", place)
        if end < 0:
            return
        command, *lines = bytes(data[place:end]).decode(errors="replace").split("\n")
        headers = dict(line.split(":", 1) for line in reversed(lines) if ":" in line)
        body = end + 2
        length = headers.get("content-length")
        stop = data.find(b"\0", body) if length is None else body + int(length)
        if not body <= stop < len(data):
            return
        while moment + 1 < len(starts) and starts[moment + 1][0] <= place:
            moment += 1
        queue = headers.get("destination", "").removeprefix(_QUEUE)
        yield Frame(starts[moment][1], command, queue, bytes(data[body:stop]))
        place = stop + 1


def bodies(tap: TcpProxy) -> Iterator[bytes]:
    """The bodies of all messages that passed a proxy, both ways."""
    for way in BOTH:
        for pieces in tap.pieces(way):
            yield from (frame.body for frame in frames(pieces) if frame.body)


def deliveries(there: Iterable[Frame], handles: Iterable[str]) -> list[tuple[float, str]]:
    """When which of these clients was sent an event.

    Args:
        there: frames from the agent.
        handles: of clients.
    """
    queues = {delivery_queue(handle): handle for handle in handles}
    return [
        (frame.at, queues[frame.queue])
        for frame in there
        if frame.command == "SEND" and frame.queue in queues and _kind(frame.body) == "delivery"
    ]


def leases(
    agent: str, keys: Keys, lease_key: bytes, there: Iterable[Frame], back: Iterable[Frame]
) -> list[Given]:
    """The leases that an agent was given, opened with its own key.

    Args:
        agent: its name.
        keys: its private keys.
        lease_key: what it pinned.
        there: frames from the agent, of all its connections.
        back: frames to it.
    """
    asked: dict[str, float] = {}
    for frame in there:
        if frame.command != "SEND" or frame.queue != REQUESTS_QUEUE:
            continue
        request = decode_request(frame.body)
        if request.kind == "lease":
            nonce = verify_lease_request(request, keys.signing.public).nonce
            asked.setdefault(nonce, frame.at)
    address, found = audience("agent", agent), []
    for frame in back:
        if frame.command != "MESSAGE" or frame.queue != control_queue(address):
            continue
        control = decode_control(frame.body)
        if control.kind == "lease":
            lease = open_lease(
                control.payload, key=keys.sealing, audience=address, lease_key=lease_key
            )
            if lease.nonce in asked:
                found.append(Given(asked[lease.nonce], frame.at, dict(lease.seconds)))
    return found


def without_lease(
    sent: Iterable[tuple[float, str]], given: list[Given], domain: str, slack: float
) -> list[str]:
    """Deliveries that left an agent which had no lease for them.

    Args:
        sent: see `deliveries`.
        given: see `leases`.
        domain: whose events they are.
        slack: seconds that bytes may be on their way from the agent to where they are seen.
    """
    problems = []
    for at, handle in sent:
        until = max(
            (one.asked + one.seconds.get(domain, 0) for one in given if one.heard <= at),
            default=float("-inf"),
        )
        if at > until + slack:
            problems.append(f"sent to `{handle}` at {at:.1f} with a lease until {until:.1f}")
    return problems


def _kind(body: bytes) -> str:
    try:
        return decode_framed(body)[0]
    except DecodeError:
        return ""
