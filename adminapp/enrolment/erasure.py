"""Takes a person out of the enrolments that speak of them."""

from __future__ import annotations

from adminapp.enrolment.models import EnrolmentToken
from adminapp.identity.models import Principal


def forget(principal: Principal) -> None:
    """Remove tokens, requests with their keys, and certificates."""
    EnrolmentToken.objects.filter(principal=principal).delete()
