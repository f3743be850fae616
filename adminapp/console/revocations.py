"""Revocations: is it done everywhere?"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from adminapp.agreements import selectors as agreements
from adminapp.agreements.models import Agreement
from adminapp.console import words
from adminapp.console.pages import in_domain, show
from adminapp.console.tables import RevocationTable, configured
from adminapp.distribution import evidence, receipts, selectors
from adminapp.distribution.models import Revocation, Rollout, RolloutMember
from adminapp.distribution.selectors import Timeline
from adminapp.identity.models import Domain

# What is worth telling of an event; the rest is in its title or in the tables beside it.
TOLD = {
    "agents": "agents told to stop",
    "rows": "encodings",
    "revision": "with revision",
    "keys": "keys renewed",
    "attempt": "attempt",
    "unreachable": "not reached",
    "principals": "principals concerned",
    "rights": "rights ended",
}


@require_safe
@in_domain
def index(request: HttpRequest, domain: Domain) -> HttpResponse:
    found = selectors.revocations(request.user).filter(domain=domain)
    return show(
        request,
        "console/revocations/index.html",
        title="Revocations",
        area="revocations",
        question="Whose rights were ended, and is it done everywhere?",
        domain=domain,
        live=True,
        parts={"rows": "console/revocations/_rows.html"},
        table=configured(request, RevocationTable(found)),
        any=found.exists(),
        agreements=_agreements(request, domain),
    )


def _agreements(request: HttpRequest, domain: Domain) -> list[Agreement]:
    """Those in force, by which others come in or go out: they have no page of their own."""
    found = agreements.agreements(request.user, domain).in_force()
    return list(found.select_related("provider", "consumer"))


@require_safe
@in_domain
def detail(request: HttpRequest, domain: Domain, uid: str) -> HttpResponse:
    timeline = _timeline(request, domain, uid)
    revocation = timeline.revocation
    members = list(revocation.rollout.members.all()) if revocation.rollout else []
    return show(
        request,
        "console/revocations/detail.html",
        title=f"Revocation of {revocation.what}",
        area="revocations",
        question=revocation.reason,
        domain=domain,
        live=True,
        parts={"state": "console/revocations/_detail.html"},
        timeline=timeline,
        revocation=revocation,
        steps=list(steps(timeline)),
        stopped=stopped(timeline),
        phases=phases(timeline, members),
        switching=switches(revocation),
        enforced_by=receipts.enforced_by(revocation),
        now=timezone.now(),
        together=_together(request, revocation),
        check=evidence.check(revocation),
        members=members,
        receipt=json.dumps(timeline.receipt, indent=2, sort_keys=True, ensure_ascii=False)
        if timeline.receipt
        else "",
    )


@require_safe
@in_domain
def receipt(request: HttpRequest, domain: Domain, uid: str) -> HttpResponse:
    """The signed receipt as a file; its bytes are what the signature covers, in JSON."""
    timeline = _timeline(request, domain, uid)
    if not timeline.receipt:
        raise Http404("no receipt yet")
    body = json.dumps(timeline.receipt, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    response = HttpResponse(body, content_type="application/json")
    name = f"receipt-{domain.name}-{timeline.revocation.uid[:8]}.json"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def _together(request: HttpRequest, revocation: Revocation) -> list[Revocation]:
    """The others of the same act: an agent is revoked in each domain that it served."""
    if not revocation.batch:
        return []
    found = selectors.revocations(request.user).filter(batch=revocation.batch)
    return list(found.exclude(pk=revocation.pk).order_by("domain__name"))


def _timeline(request: HttpRequest, domain: Domain, uid: str) -> Timeline:
    try:
        found = selectors.revocation_timeline(uid)
    except Revocation.DoesNotExist:
        raise Http404("no such revocation") from None
    if found.revocation.domain_id != domain.pk:
        raise Http404("no such revocation")
    return found


@dataclass(frozen=True)
class Step:
    """One entry of the timeline."""

    title: str
    at: datetime | None
    after: str
    tone: str
    icon: str
    details: tuple[tuple[str, str], ...] = field(default=())


@dataclass(frozen=True)
class Phase:
    """A part of a revocation, as it is drawn.

    Args:
        title: what is done in it.
        state: `done`, `now` or `later`.
        done: how many of `total` are through, where it can be counted.
        total: 0 where it cannot.
        what: what is counted.
    """

    title: str
    state: str
    done: int = 0
    total: int = 0
    what: str = ""


def switches(revocation: Revocation) -> bool:
    """Whether new keys or a new epoch come with it; what only taken away needs no switch."""
    rollout = revocation.rollout
    if rollout is None:
        return False
    new = rollout.epoch_to_id is not None or rollout.blind_to_id is not None
    return new or rollout.key_epochs.exists()


_AT = {"noticed": 0, "applying": 1, "recomputing": 1, "staging": 2, "switching": 3, "draining": 4}


def phases(timeline: Timeline, members: Sequence[RolloutMember]) -> list[Phase]:
    """Its parts in their order, from what agents signed and the job reported."""
    revocation, told = timeline.revocation, stopped(timeline)
    here = [member for member in members if not member.skipped_in]
    parts: list[tuple[str, int, int, str]] = [
        ("Agents stop", told.confirmed, told.agents, "agents confirmed")
    ]
    if revocation.rollout is None and not revocation.moves_epoch:
        parts.append(("The policy is taken up", 0, 0, ""))
    else:
        job = timeline.job
        rows = (job.rows_done, job.rows_total) if job is not None else (0, 0)
        parts += [
            ("Encodings replaced", *rows, "encodings"),
            ("Agents get them", _count(here, "staged_at"), len(here), "hold them"),
        ]
    if switches(revocation):
        parts += [
            ("All switch", _count(here, "switched_at"), len(here), "switched"),
            ("Old ones run out", _count(here, "retired_at"), len(here), "dropped them"),
        ]
    parts.append(("Receipt", 0, 0, ""))
    # Without a switch it may still be `draining` for a moment, while the receipt is signed.
    at = min(_AT.get(str(revocation.state), len(parts)), len(parts))
    if revocation.completed is None:
        at = min(at, len(parts) - 1)
    if revocation.completed is None and revocation.rollout is not None:
        over = revocation.rollout.state == Rollout.State.COMPLETE
        at = len(parts) - 1 if over else at
    return [
        Phase(title, "done" if place < at else "now" if place == at else "later", *counted)
        for place, (title, *counted) in enumerate(parts)
    ]


def _count(members: Iterable[RolloutMember], moment: str) -> int:
    return sum(getattr(member, moment) is not None for member in members)


@dataclass(frozen=True)
class Stopped:
    """How many agents confirmed that they stopped."""

    agents: int
    confirmed: int
    seconds: float | None

    @property
    def all(self) -> bool:
        return self.agents == self.confirmed


def stopped(timeline: Timeline) -> Stopped:
    """Told from the signed acknowledgements of the notices to agents."""
    notices = [n for n in timeline.notices if n.audience.startswith("agent:")]
    times = [n.acknowledged_at for n in notices if n.acknowledged_at is not None]
    last = max(times, default=None)
    seconds = None
    if last is not None and len(times) == len(notices):
        seconds = (last - timeline.revocation.created).total_seconds()
    return Stopped(len(notices), len(times), seconds)


def steps(timeline: Timeline) -> Iterator[Step]:
    """The recorded events in words, in the order in which they happened."""
    began = timeline.revocation.created
    switching = switches(timeline.revocation)
    for event in timeline.events:
        words_of = words.revocation_event(
            event.kind, str(event.detail.get("agent", "")), switching=switching
        )
        yield Step(
            title=words_of.label,
            at=event.at,
            after=words.duration((event.at - began).total_seconds()),
            tone=words_of.tone,
            icon=words_of.icon,
            details=tuple(_details(event.detail)),
        )


def _details(detail: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, told in TOLD.items():
        value = detail.get(name)
        if value:
            yield told, ", ".join(map(str, value)) if isinstance(value, list) else str(value)
