"""What began or ended by itself since a domain was compiled, asked of all domains at once."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from django.db.models import F, Q, QuerySet

from adminapp.policies.models import Policy
from adminapp.roles.models import Appointment

_APPOINTED = F("principal__domain__compilation__at")
_PERMITTED = F("domain__compilation__at")


def crossed(now: datetime) -> set[int]:
    """Domains where an appointment or a policy began or ended, and no compile has seen it."""
    appointments = Appointment.objects.filter(
        Q(starts__gt=_APPOINTED, starts__lte=now) | Q(ends__gt=_APPOINTED, ends__lte=now)
    )
    policies = Policy.objects.filter(
        Q(valid_from__gt=_PERMITTED, valid_from__lte=now)
        | Q(valid_until__gt=_PERMITTED, valid_until__lte=now)
    )
    return _domains(appointments, policies)


def overdue(domain_ids: Collection[int], before: datetime) -> set[int]:
    """Of some domains those where something ended before a moment, and no compile has seen it.

    What agents hold of such a domain grants more than it should.
    """
    appointments = Appointment.objects.filter(
        principal__domain__in=domain_ids, ends__gt=_APPOINTED, ends__lte=before
    )
    policies = Policy.objects.filter(
        domain__in=domain_ids, valid_until__gt=_PERMITTED, valid_until__lte=before
    )
    return _domains(appointments, policies)


def _domains(appointments: QuerySet[Appointment], policies: QuerySet[Policy]) -> set[int]:
    first = appointments.order_by().values_list("principal__domain_id", flat=True)
    return set(first.union(policies.order_by().values_list("domain_id", flat=True)))
