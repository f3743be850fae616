"""Revocations: is it done everywhere?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from adminapp.console import words
from adminapp.console.pages import in_domain, show
from adminapp.console.tables import RevocationTable, configured
from adminapp.distribution import selectors
from adminapp.distribution.models import Revocation
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
    )


@require_safe
@in_domain
def detail(request: HttpRequest, domain: Domain, uid: str) -> HttpResponse:
    timeline = _timeline(request, domain, uid)
    revocation = timeline.revocation
    return show(
        request,
        "console/revocations/detail.html",
        title=f"Revocation of {revocation.principal.name}",
        area="revocations",
        question=revocation.reason,
        domain=domain,
        live=True,
        parts={"state": "console/revocations/_detail.html"},
        timeline=timeline,
        revocation=revocation,
        steps=list(steps(timeline)),
        stopped=stopped(timeline),
        members=revocation.rollout.members.all() if revocation.rollout else [],
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
    for event in timeline.events:
        words_of = words.revocation_event(event.kind, str(event.detail.get("agent", "")))
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
