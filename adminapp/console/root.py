"""The root of trust: whom does everybody believe, until when, and who follows?"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from adminapp.console.pages import show, signed_in
from adminapp.distribution import roots
from adminapp.identity import selectors as identity

ONLINE = {
    "policy": "policies, as agents and clients get them",
    "notice": "notices that stop an agent",
    "lease": "leases, without which nothing is delivered",
    "receipt": "receipts of revocations",
    "audit": "the state of the audit",
    "enrolment": "certificates of those who take part",
}


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    root = roots.shown()
    online = () if root is None else root.online
    return show(
        request,
        "console/root/index.html",
        title="Root of trust",
        area="root",
        question="Which keys do agents and clients believe, who vouches for these, and until when?",
        live=True,
        parts={"state": "console/root/_state.html"},
        root=root,
        online=[(role, ONLINE.get(role, role), name) for role, name in online],
        followers=roots.followers(identity.agents(request.user).values_list("name", flat=True)),
        warn=roots.WARN_DAYS,
        urgent=roots.URGENT_DAYS,
    )
