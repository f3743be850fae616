"""Search over everything that has a page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from adminapp.catalog import selectors as catalog
from adminapp.console.pages import show, signed_in
from adminapp.identity import selectors as identity
from adminapp.policies import selectors as policies

LIMIT = 20


@dataclass(frozen=True)
class Hit:
    """One thing that was found."""

    kind: str
    icon: str
    title: str
    note: str
    url: str


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    words = request.GET.get("q", "").strip()[:100]
    return show(
        request,
        "console/search.html",
        title="Search",
        area="search",
        question=f"Everything that mentions “{words}”." if words else "",
        search=words,
        words=words,
        hits=list(_hits(request.user, words)) if words else [],
    )


def _hits(user: Any, words: str) -> Iterator[Hit]:
    named = Q(name__icontains=words)
    titled = named | Q(title__icontains=words)
    for domain in identity.domains(user).filter(titled)[:LIMIT]:
        yield Hit(
            "Domain", "building", domain.name, domain.title,
            reverse("console:domain", args=[domain.name]),
        )  # fmt: skip
    for policy in policies.policies(user).filter(titled | Q(expression__icontains=words))[:LIMIT]:
        yield Hit(
            "Policy", "shield-check", policy.name, f"{policy.domain.name}: {policy.expression}",
            reverse("console:policy", args=[policy.domain.name, policy.name]),
        )  # fmt: skip
    for principal in identity.principals(user).filter(named | Q(handle=words))[:LIMIT]:
        yield Hit(
            "Principal", "users", principal.name, principal.domain.name,
            reverse("console:principal", args=[principal.domain.name, principal.name]),
        )  # fmt: skip
    for kind in catalog.event_types(user).filter(titled)[:LIMIT]:
        yield Hit(
            "Event type", "binary-tree", kind.name, kind.domain.name,
            reverse("console:event-type", args=[kind.domain.name, kind.name]),
        )  # fmt: skip
    for attribute in catalog.attributes(user).filter(named)[:LIMIT]:
        kind = attribute.event_type
        yield Hit(
            "Attribute", "tags", attribute.name, f"{kind.domain.name}: {kind.name}",
            reverse("console:event-type", args=[kind.domain.name, kind.name]),
        )  # fmt: skip
    for agent in identity.agents(user).filter(named)[:LIMIT]:
        yield Hit(
            "Agent", "server", agent.name, agent.overlay.name,
            reverse("console:agent", args=[agent.name]),
        )  # fmt: skip
