"""Reads of change sets and announcements."""

from __future__ import annotations

from typing import Any

from django.db.models import Prefetch, QuerySet

from adminapp.changes.models import Announcement, ChangeSet, Decision
from adminapp.identity.models import Domain


def change_sets(user: Any, domain: Domain | None = None) -> QuerySet[ChangeSet]:
    """Newest first, with who decided what."""
    decisions = Decision.objects.select_related("user")
    found = (
        ChangeSet.objects.visible_to(user)
        .select_related("domain", "author")
        .prefetch_related(Prefetch("decisions", queryset=decisions))
    )
    return found if domain is None else found.filter(domain=domain)


def waiting_for(user: Any) -> QuerySet[ChangeSet]:
    """Change sets that this user could decide about."""
    return change_sets(user).waiting().exclude(author=user)


def announcements(user: Any) -> QuerySet[Announcement]:
    return Announcement.objects.visible_to(user).select_related("change_set")
