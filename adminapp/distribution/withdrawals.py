"""From the commit of a withdrawal on, no lease is signed that does not demand it.

An agreement that is withdrawn takes rights from many principals at once, so agents are not told
whom to deny: they must hold the revision in which nobody comes through it any more. So it is with a
generation of a key that ended at once. An agent that
served guests alone is given no lease for the domain at all (`serving.domains_of_agent`).
"""

from __future__ import annotations

from django.db.models import F
from django.db.models.functions import Greatest

from adminapp.core.journal import Journal
from adminapp.distribution.models import Recipient
from adminapp.identity.models import Domain
from adminapp.trustgroups.emergency import ENDED

WITHDRAWN = "agreement.withdrawn"


def demand(book: Journal) -> None:
    """Raise what leases ask of the agents of every domain that closed something."""
    names = {item.domain for item in book.items if item.action in (WITHDRAWN, ENDED)}
    if not names:
        return
    for domain in Domain.objects.filter(name__in=names, pk__in=book.raised):
        agents = Recipient.objects.filter(domain=domain, audience__startswith="agent:")
        agents.update(minimum_revision=Greatest(F("minimum_revision"), book.raised[domain.pk]))
