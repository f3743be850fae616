"""Tells people of changes that need them."""

from __future__ import annotations

from collections.abc import Iterable

from adminapp.changes.models import Announcement, ChangeSet
from adminapp.identity.models import Membership, User


def managers(change_set: ChangeSet) -> list[User]:
    """Everybody who manages the domain; the operators, for one of the platform."""
    if change_set.domain_id is None:
        return list(User.objects.filter(is_superuser=True, is_active=True))
    rows = Membership.objects.filter(
        domain_id=change_set.domain_id, role=Membership.Role.MANAGER, user__is_active=True
    )
    return [row.user for row in rows.select_related("user")]


def submitted(change_set: ChangeSet) -> None:
    """A change waits for a second person."""
    others = [user for user in managers(change_set) if user.pk != change_set.author_id]
    _announce(change_set, others, f"{_who(change_set)} asks for approval of {_what(change_set)}")


def decided(change_set: ChangeSet, verdict: str) -> None:
    """A second person has decided."""
    author = [] if change_set.author is None else [change_set.author]
    _announce(change_set, author, f"{_what(change_set)} was {verdict}")


def urgent(change_set: ChangeSet) -> None:
    """A grant took effect without waiting: every manager hears of it."""
    until = change_set.urgent_until
    end = f" until {until:%Y-%m-%d %H:%M} UTC" if until else ""
    text = f"{_who(change_set)} broke the glass{end}: {change_set.message}"
    _announce(change_set, managers(change_set), text)


def undone(change_set: ChangeSet, why: str) -> None:
    """An urgent grant was taken back."""
    _announce(change_set, managers(change_set), f"the urgent {_what(change_set)} was undone: {why}")


def _announce(change_set: ChangeSet, users: Iterable[User], text: str) -> None:
    Announcement.objects.bulk_create(
        Announcement(user=user, change_set=change_set, text=text[:500]) for user in users
    )


def _who(change_set: ChangeSet) -> str:
    return change_set.author.username if change_set.author else "the system"


def _what(change_set: ChangeSet) -> str:
    return f"change {change_set.pk} of {change_set.domain_name or 'the platform'}"
