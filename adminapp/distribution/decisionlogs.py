"""Decision logs as they arrive: whose they are, what spans they cover, when they go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from adminapp.core.authority import get_authority
from adminapp.distribution.models import DecisionKey, DecisionSegment
from adminapp.distribution.recipients import Audience
from adminapp.distribution.serving import serving_agents
from adminapp.identity.models import Agent, Domain
from policyengine.bundles import (
    DecisionReport,
    DecisionRow,
    DecisionSettings,
    Request,
    open_decisions,
    verify_decision_report,
)
from policyengine.bundles.addresses import audience
from policyengine.errors import RejectedError
from policyengine.primitives.hpke import SealingKey

State = DecisionSegment.State
Span = tuple[int, int]

# A clock that is ahead, or a lease that was not yet there, may put a row a little late.
_AHEAD = timedelta(hours=1)


def ensure_key(domain: Domain) -> None:
    """Have the authority make the key that the domain's logs are sealed to, where they are kept."""
    if not domain.decision_days or DecisionKey.objects.filter(domain=domain).exists():
        return
    authority = get_authority()
    wrapped = authority.create_key(key_id(domain))
    public = SealingKey(authority.unwrap(key_id(domain), wrapped)).public
    # Two compilers may meet here: the first row stays, both go on with that one.
    DecisionKey.objects.get_or_create(
        domain=domain, defaults={"wrapped": wrapped, "public": public}
    )


def settings_of(domain: Domain) -> DecisionSettings | None:
    """What bundles say of decision logs; None where none are kept."""
    key = DecisionKey.objects.filter(domain=domain).first() if domain.decision_days else None
    return None if key is None else DecisionSettings(bytes(key.public), domain.decision_days)


def accept(sender: Audience, request: Request) -> None:
    """Keep a segment, sealed as it came; one that came before changes nothing.

    Raises:
        RejectedError: it does not verify, or is of somebody or some time that cannot be.
    """
    report = verify_decision_report(request, sender.verify_key)
    if not isinstance(sender.row, Agent):
        raise RejectedError("audience", "only agents log decisions")
    domain = Domain.objects.filter(name=report.domain, decision_days__gt=0).first()
    if domain is None:
        return
    # A banned agent's last words are kept too: what it delivered is just what one asks for.
    if report.end > _ms(timezone.now() + _AHEAD):
        raise RejectedError("malformed", "the segment ends in the future")
    DecisionSegment.objects.get_or_create(
        domain=domain,
        agent=sender.row.name,
        stream=report.stream,
        sequence=report.sequence,
        defaults={
            "begin": report.begin,
            "end": report.end,
            "lost": report.lost,
            "records": report.records,
            "data": report.sealed,
        },
    )


@dataclass(frozen=True)
class Opened:
    """A segment whose rows are in clear."""

    segment: DecisionSegment
    rows: tuple[DecisionRow, ...]


def waiting(domain: Domain, limit: int = 200) -> Iterator[Opened]:
    """The segments that are not in Parquet yet, opened; those that do not open are set aside."""
    found = list(DecisionSegment.objects.filter(domain=domain, state=State.RECEIVED)[:limit])
    key = DecisionKey.objects.filter(domain=domain).first()
    if not found or key is None:
        return
    opener = SealingKey(get_authority().unwrap(key_id(domain), key.wrapped))
    for segment in found:
        try:
            yield Opened(segment, open_decisions(_report(domain, segment), opener))
        except RejectedError:
            DecisionSegment.objects.filter(pk=segment.pk).update(state=State.BROKEN, data=None)


def stored(segments: Iterable[DecisionSegment]) -> None:
    """The rows of these are in Parquet, on the disk."""
    DecisionSegment.objects.filter(pk__in=[one.pk for one in segments]).update(
        state=State.STORED, data=None
    )


def doubt() -> int:
    """For a database that was restored: Parquet files are in no backup, so what would be counted
    anew from them (the last days, and what was in no count yet) is unknown from now on.
    """
    midnight = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    recent = DecisionSegment.objects.filter(
        state=State.COUNTED, end__gte=_ms(midnight - timedelta(days=1))
    )
    uncounted = DecisionSegment.objects.filter(state=State.STORED)
    return recent.update(state=State.BROKEN) + uncounted.update(state=State.BROKEN)


def expire(domain: Domain) -> int:
    """Forget what is older than the domain wants it kept; returns how many segments went."""
    oldest = oldest_kept(domain)
    with transaction.atomic():
        gone, _ = DecisionSegment.objects.filter(domain=domain, end__lt=_ms(oldest)).delete()
    return gone


def oldest_kept(domain: Domain) -> datetime:
    """The moment before which nothing is kept."""
    return timezone.now() - timedelta(days=domain.decision_days)


@dataclass(frozen=True)
class Coverage:
    """What is known of one agent's decisions since some moment.

    Args:
        agent: its name.
        spans: the spans that segments cover, joined, in order.
        through: end of the last of them, or 0.
        losses: of segments with decisions that found no room on the agent's disk their end and
            how many.
        serves: whether the agent serves the domain now.
    """

    agent: str
    spans: tuple[Span, ...]
    through: int
    losses: tuple[tuple[int, int], ...] = ()
    serves: bool = False

    def lost_since(self, begin: int) -> int:
        """How many decisions found no room, since a moment."""
        return sum(number for end, number in self.losses if end > begin)

    def missing(self, begin: int, end: int) -> tuple[Span, ...]:
        """The parts of a span that nothing is known of."""
        found: list[Span] = []
        at = begin
        for first, last in self.spans:
            if last <= at or first >= end:
                continue
            if first > at:
                found.append((at, first))
            at = max(at, last)
        if at < end:
            found.append((at, end))
        return tuple(found)


def coverage(domain: Domain, since: int) -> list[Coverage]:
    """What is known of the decisions of every agent that serves the domain, or that logged."""
    names = {agent.name for agent in serving_agents(domain)}
    held: dict[str, list[DecisionSegment]] = {}
    rows = DecisionSegment.objects.filter(domain=domain, end__gt=since, state=State.COUNTED)
    for row in rows.defer("data").order_by("begin"):
        held.setdefault(row.agent, []).append(row)
    return [
        _coverage(name, held.get(name, []), serves=name in names)
        for name in sorted(names | held.keys())
    ]


def _coverage(name: str, rows: list[DecisionSegment], *, serves: bool) -> Coverage:
    spans: list[Span] = []
    for row in rows:
        if spans and row.begin <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], row.end))
        else:
            spans.append((row.begin, row.end))
    through = max((row.end for row in rows), default=0)
    losses = tuple((row.end, row.lost) for row in rows if row.lost)
    return Coverage(name, tuple(spans), through, losses, serves)


def _report(domain: Domain, row: DecisionSegment) -> DecisionReport:
    return DecisionReport(
        audience=audience("agent", row.agent),
        domain=domain.name,
        stream=row.stream,
        sequence=row.sequence,
        begin=row.begin,
        end=row.end,
        lost=row.lost,
        records=row.records,
        sealed=bytes(row.data or b""),
    )


def key_id(domain: Domain) -> str:
    """The name under which the authority wrapped the domain's key."""
    return f"decisions:{domain.name}:log:0"


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
