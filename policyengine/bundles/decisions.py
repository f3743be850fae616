"""What agents decided: who was granted or refused which type, under which revision; no payload.

An agent keeps one row a decision and sends them in numbered segments, one stream of numbers
for each of its state folders and domains. A segment says which span of time it covers, so
that whoever reads the log knows what is missing of it. The rows are sealed to the control
plane's key for the domain, so that the broker learns neither types nor clients.

    sealed = HPKE(row \n row \n ..., info = purpose|domain|audience|stream|sequence)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Final

from policyengine.bundles.contexts import DECISION_REPORT, DECISIONS
from policyengine.bundles.framing import Request
from policyengine.bundles.limits import AUDIENCE
from policyengine.bundles.requests import signed_request, verified_request
from policyengine.bundles.sealing import reject
from policyengine.errors import DecodeError, DecryptionError, InputError, RejectedError
from policyengine.primitives.canonical import dumps, loads
from policyengine.primitives.hpke import SealingKey, open_sealed, seal_to
from policyengine.primitives.records import (
    HEX_ID,
    IDENTIFIER,
    KEY,
    LABEL,
    UINT,
    Binary,
    Choice,
    Integer,
    ListOf,
    Record,
    Text,
    invalid,
)
from policyengine.primitives.signatures import SigningKey

PUBLISH: Final = "publish"
DELIVER: Final = "deliver"
SUBSCRIBE: Final = "subscribe"
GRANTED: Final = "granted"
SUPPRESSED: Final = "suppressed"
"""Delivered or admitted, but without attributes that the client may not have."""
REFUSED: Final = "refused"
ACTIONS: Final = (PUBLISH, DELIVER, SUBSCRIBE)
OUTCOMES: Final = (GRANTED, SUPPRESSED, REFUSED)

MAX_SEGMENT: Final = 512 * 1024
"""Most bytes of a segment's rows."""
MAX_ROWS: Final = 16_384
"""Most rows of a segment."""
MAX_DAYS: Final = 3650

_WORD = Text("([a-z0-9-]{1,64})?", 64, "must be empty or 1 to 64 of `a-z`, `0-9` and `-`")
_TYPE = Text(r"[^\x00-\x1f\x7f]{0,128}", 128, "must be at most 128 printable characters")
_POLICIES = ListOf(LABEL, 4096)
_SUBSCRIPTIONS = ListOf(IDENTIFIER, 1024)


@dataclass(frozen=True)
class DecisionSettings(Record):
    """What a bundle says about decision logs; without it an agent keeps none.

    Args:
        key: the control plane's public X25519 key for this domain's logs, 32 bytes.
        days: how long a decision is kept, at the agent too.
    """

    key: Annotated[bytes, KEY]
    days: Annotated[int, Integer(1, MAX_DAYS)]


@dataclass(frozen=True)
class DecisionRow(Record):
    """One decision, or several alike of the same moment.

    Args:
        at: milliseconds since 1970, by the lease's signed time.
        revision: of the policy that decided.
        epoch: encoding epoch that the event named; 0 where none was looked up.
        action: `publish`, `deliver` or `subscribe`.
        client: whom it is about; empty where nothing of the message could be believed, or for
            clients that are counted together.
        type: event type; empty where it is not known.
        outcome: `granted`, `suppressed` or `refused`.
        reason: one word; empty where it was granted.
        policies: names of the policies that granted it, as the bundle has them.
        subscriptions: the client's names of those that the event met.
        count: how many decisions it stands for.
    """

    at: Annotated[int, UINT]
    revision: Annotated[int, UINT]
    epoch: Annotated[int, UINT]
    action: Annotated[str, Choice(ACTIONS)]
    client: Annotated[str, _WORD]
    type: Annotated[str, _TYPE]
    outcome: Annotated[str, Choice(OUTCOMES)]
    reason: Annotated[str, _WORD]
    policies: Annotated[tuple[str, ...], _POLICIES]
    subscriptions: Annotated[tuple[str, ...], _SUBSCRIPTIONS]
    count: Annotated[int, Integer(1)]

    def to_line(self) -> bytes:
        """The row as one line of canonical JSON, without its end."""
        return dumps(list(self.to_json().values()))

    @classmethod
    def from_line(cls, line: bytes) -> DecisionRow:
        """Read a row.

        Raises:
            DecodeError: it is not what `to_line` writes.
        """
        values: Any = loads(line, max_bytes=MAX_SEGMENT)
        names = tuple(cls.__dataclass_fields__)
        if type(values) is not list or len(values) != len(names):
            raise DecodeError("a decision has other members")
        return cls.from_json(dict(zip(names, values, strict=True)))


@dataclass(frozen=True)
class DecisionReport(Record):
    """A segment of an agent's decision log on its way to the control plane.

    Args:
        audience: whose log it is.
        domain: the domain.
        stream: random, 32 hexadecimal digits; a new one where an agent lost its numbers.
        sequence: of the segment within the stream, from 1 without holes.
        begin: the segment holds every decision from here, milliseconds since 1970,
        end: until before here, by the lease's signed time,
        lost: but for so many rows that found no room on the agent's disk.
        records: number of rows.
        sealed: the rows, from `seal_decisions`.
    """

    audience: Annotated[str, AUDIENCE]
    domain: Annotated[str, IDENTIFIER]
    stream: Annotated[str, HEX_ID]
    sequence: Annotated[int, Integer(1)]
    begin: Annotated[int, UINT]
    end: Annotated[int, UINT]
    lost: Annotated[int, UINT]
    records: Annotated[int, Integer(0, MAX_ROWS)]
    sealed: Annotated[bytes, Binary(0, MAX_SEGMENT + 1024)]

    def _agree(self) -> None:
        if self.begin > self.end:
            raise invalid("end", "must not come before the beginning")


def seal_decisions(
    lines: Iterable[bytes],
    *,
    recipient: bytes,
    domain: str,
    audience: str,
    stream: str,
    sequence: int,
) -> bytes:
    """Seal a segment's rows to the control plane.

    Args:
        lines: from `DecisionRow.to_line`.
        recipient: `DecisionSettings.key`.
        domain: the domain.
        audience: whose log it is.
        stream: see `DecisionReport`.
        sequence: see `DecisionReport`.

    Raises:
        InputError: `too-large` over `MAX_SEGMENT` bytes; `invalid` for a key that is none.
    """
    body = b"\n".join(lines)
    if len(body) > MAX_SEGMENT:
        raise InputError("too-large", f"a segment has at most {MAX_SEGMENT} bytes")
    return seal_to(recipient, body, info=_info(domain, audience, stream, sequence))


def open_decisions(report: DecisionReport, key: SealingKey) -> tuple[DecisionRow, ...]:
    """Open the rows of a report whose signature was checked.

    Args:
        report: from `verify_decision_report`.
        key: the control plane's key for the domain.

    Raises:
        RejectedError: `malformed`; nothing of the segment may be used then.
    """
    info = _info(report.domain, report.audience, report.stream, report.sequence)
    try:
        body = open_sealed(key, report.sealed, info=info)
        lines = body.split(b"\n") if body else []
        if len(lines) != report.records:
            reject("malformed", "the segment holds another number of decisions than it says")
        return tuple(DecisionRow.from_line(line) for line in lines)
    except (DecryptionError, DecodeError) as error:
        raise RejectedError("malformed", "the decisions do not open") from error


def sign_decision_report(report: DecisionReport, signing_key: SigningKey) -> Request:
    """Sign a report as its audience; `.encode()` gives the bytes to send."""
    return signed_request("decisions", DECISION_REPORT, report.audience, report, signing_key)


def verify_decision_report(request: Request, public: bytes) -> DecisionReport:
    """Check a report.

    Args:
        request: as decoded from the requests queue.
        public: the audience's registered Ed25519 key, 32 bytes.

    Raises:
        RejectedError: `malformed`, `signature` or `audience`.
    """
    report = verified_request("decisions", DECISION_REPORT, DecisionReport, request, public)
    if report.audience != request.audience:
        reject("audience", "the report speaks for someone else")
    return report


def _info(domain: str, audience: str, stream: str, sequence: int) -> bytes:
    return b"|".join((DECISIONS, domain.encode(), audience.encode(), stream.encode(),
                      b"%d" % sequence))  # fmt: skip
