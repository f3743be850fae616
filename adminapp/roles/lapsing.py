"""What lapses by itself is recorded here; it holds no more since its end, recorded or not."""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone

from adminapp.audit import services as audit
from adminapp.roles.appointing import lapse
from adminapp.roles.models import Appointment
from adminapp.roles.sessions import settle_domain

__all__ = ["lapse_due", "settle_domain"]

AT_ONCE = 500


def lapse_due(now: datetime | None = None) -> int:
    """Record every lapse up to now, once, as the system; returns how many."""
    moment = min(now or timezone.now(), timezone.now())
    count = 0
    while True:
        due = Appointment.objects.filter(closed__isnull=True, ends__lte=moment)
        rows = list(due.select_related("principal__domain").order_by("ends", "pk")[:AT_ONCE])
        by_domain: dict[int, list[Appointment]] = {}
        for row in rows:
            by_domain.setdefault(row.principal.domain_id, []).append(row)
        for held in by_domain.values():
            with audit.changing():
                count += sum(lapse(actor=None, appointment=row) for row in held)
        if len(rows) < AT_ONCE:
            return count
