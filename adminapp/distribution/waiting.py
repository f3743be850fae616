"""Who a rollout still waits for.

An agent whose lease has ended delivers nothing, so it holds up nobody; one that is alive and
does not acknowledge is given a minute. Whoever is skipped gets no lease below the revision
that it missed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from django.db.models import F
from django.db.models.functions import Greatest
from django.utils import timezone

from adminapp.distribution import timeline
from adminapp.distribution.batches import chunked
from adminapp.distribution.models import (
    Bundle,
    Compilation,
    Recipient,
    Rollout,
    RolloutMember,
)
from adminapp.distribution.recipients import recipient
from adminapp.distribution.serving import clients_of, serving_agents
from adminapp.identity.models import Domain
from policyengine.bundles.addresses import audience

PATIENCE = timedelta(seconds=60)
# Clocks of two machines of the control plane may differ by so much.
_SKEW = timedelta(seconds=1)

_STAMPS = {
    Rollout.State.STAGING: "staged_at",
    Rollout.State.SWITCHING: "switched_at",
    Rollout.State.RETIRING: "retired_at",
}


@dataclass(frozen=True)
class Standing:
    """One audience, looked at while a rollout waits for a revision."""

    row: Recipient
    revision: int
    patient_until: datetime
    now: datetime

    @property
    def there(self) -> bool:
        """It acknowledged the revision, or a newer one, and that one was built for it."""
        lies = self.row.state == Recipient.State.CONTRADICTS
        return self.row.revision >= self.revision and not lies

    @property
    def awaited(self) -> bool:
        """It is not there, but alive and still within its minute."""
        alive = self.row.leased_until is not None and self.row.leased_until > self.now
        return not self.there and alive and self.now < self.patient_until


def agents_ready(rollout: Rollout) -> bool:
    """Whether every agent reached the stage's revision or need not be waited for.

    Notes who arrived; once nobody is awaited, those left behind are skipped for this stage.
    """
    standings = _standings(rollout)
    arrived = [standing.row for standing in standings if standing.there]
    _note_arrivals(rollout, arrived)
    if any(standing.awaited for standing in standings):
        return False
    _demand(rollout, [standing.row for standing in standings])
    for standing in standings:
        if not standing.there:
            _note_skip(rollout, standing.row)
    return True


def agents_worked_off(rollout: Rollout, seconds: int) -> bool:
    """Whether every agent has had a lease for so long that what waited for it is worked off.

    An agent that never asked for one has nothing that waits.
    """
    long_ago = timezone.now() - timedelta(seconds=seconds)
    return not any(
        row.leased_until < standing.now or (row.leased_since or long_ago) > long_ago
        for standing in _standings(rollout)
        for row in [standing.row]
        if row.leased_until is not None
    )


def agent_audiences(domain: Domain) -> list[str]:
    """Addresses of the agents that serve a domain."""
    return [audience("agent", agent.name) for agent in serving_agents(domain)]


def publishers_ready(rollout: Rollout) -> bool:
    """Whether every client acknowledged what the rollout changed for it.

    What was built before the rollout began says nothing of it: a client that never took that, and
    for which nothing changed since, holds up nobody.
    """
    if not Compilation.objects.filter(
        domain=rollout.domain, revision__gte=rollout.stage_revision
    ).exists():
        return False
    waiting = (Bundle.State.BUILT, Bundle.State.SENT, Bundle.State.RECEIVED)
    addresses = [audience("client", client.handle) for client in clients_of(rollout.domain)]
    return not Bundle.objects.filter(
        domain=rollout.domain,
        audience__in=addresses,
        state__in=waiting,
        built_at__gte=rollout.created - _SKEW,
    ).exists()


def enter(rollout: Rollout, agents: Iterable[str]) -> None:
    """Make the members that a rollout goes through."""
    make = partial(RolloutMember, rollout=rollout)
    RolloutMember.objects.bulk_create(
        [make(audience=name) for name in agents], ignore_conflicts=True
    )


def _standings(rollout: Rollout) -> list[Standing]:
    """How each agent stands; a few queries, since somebody looks whenever one says something."""
    addresses = agent_audiences(rollout.domain)
    rows: dict[str, Recipient] = {}
    for chunk in chunked(addresses):
        held = Recipient.objects.filter(domain=rollout.domain, audience__in=chunk)
        rows |= {row.audience: row for row in held}
    return [
        Standing(
            row=rows.get(address) or recipient(address, rollout.domain),
            revision=rollout.stage_revision,
            patient_until=rollout.stage_started + PATIENCE,
            now=timezone.now(),
        )
        for address in addresses
    ]


def _note_arrivals(rollout: Rollout, rows: Iterable[Recipient]) -> None:
    stamp = _STAMPS[Rollout.State(rollout.state)]
    members = RolloutMember.objects.filter(rollout=rollout)
    noted = set(members.filter(**{f"{stamp}__isnull": False}).values_list("audience", flat=True))
    fresh = [row for row in rows if row.audience not in noted]
    if not fresh:
        return
    enter(rollout, [row.audience for row in fresh])
    for chunk in chunked(fresh):
        members.filter(audience__in=[row.audience for row in chunk]).update(
            **{stamp: timezone.now()}
        )
    details = [{"agent": _name(row), "revision": row.revision} for row in fresh]
    timeline.note_each(rollout, f"agent-{stamp.removesuffix('_at')}", details)


def _note_skip(rollout: Rollout, row: Recipient) -> None:
    RolloutMember.objects.filter(rollout=rollout, audience=row.audience).update(
        skipped_in=rollout.state
    )
    timeline.note_rollout(rollout, "agent-skipped", agent=_name(row), stage=rollout.state)


def _demand(rollout: Rollout, rows: Iterable[Recipient]) -> None:
    """No lease below the stage's revision from now on."""
    for chunk in chunked(row.pk for row in rows):
        Recipient.objects.filter(pk__in=chunk).update(
            minimum_revision=Greatest(F("minimum_revision"), rollout.stage_revision)
        )


def _name(row: Recipient) -> str:
    return row.audience.partition(":")[2]
