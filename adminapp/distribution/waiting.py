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
        """It acknowledged the revision, or a newer one."""
        return self.row.revision >= self.revision

    @property
    def awaited(self) -> bool:
        """It is not there, but alive and still within its minute."""
        alive = self.row.leased_until is not None and self.row.leased_until > self.now
        return not self.there and alive and self.now < self.patient_until


def agents_ready(rollout: Rollout) -> bool:
    """Whether every agent reached the stage's revision or need not be waited for.

    Notes who arrived; once nobody is awaited, those left behind are skipped for this stage.
    """
    standings = [_standing(rollout, name) for name in agent_audiences(rollout.domain)]
    for standing in standings:
        if standing.there:
            _note_arrival(rollout, standing.row)
    if any(standing.awaited for standing in standings):
        return False
    for standing in standings:
        _demand(standing.row, standing.revision)
        if not standing.there:
            _note_skip(rollout, standing.row)
    return True


def agent_audiences(domain: Domain) -> list[str]:
    """Addresses of the agents that serve a domain."""
    return [audience("agent", agent.name) for agent in serving_agents(domain)]


def publishers_ready(rollout: Rollout) -> bool:
    """Whether every client acknowledged what the stage's revision changed for it."""
    if not Compilation.objects.filter(
        domain=rollout.domain, revision__gte=rollout.stage_revision
    ).exists():
        return False
    waiting = (Bundle.State.BUILT, Bundle.State.SENT, Bundle.State.RECEIVED)
    addresses = [audience("client", client.handle) for client in clients_of(rollout.domain)]
    return not Bundle.objects.filter(
        domain=rollout.domain, audience__in=addresses, state__in=waiting
    ).exists()


def enter(rollout: Rollout, agents: Iterable[str]) -> None:
    """Make the members that a rollout goes through."""
    make = partial(RolloutMember, rollout=rollout)
    RolloutMember.objects.bulk_create(
        [make(audience=name) for name in agents], ignore_conflicts=True
    )


def _standing(rollout: Rollout, address: str) -> Standing:
    return Standing(
        row=recipient(address, rollout.domain),
        revision=rollout.stage_revision,
        patient_until=rollout.stage_started + PATIENCE,
        now=timezone.now(),
    )


def _note_arrival(rollout: Rollout, row: Recipient) -> None:
    stamp = _STAMPS[Rollout.State(rollout.state)]
    RolloutMember.objects.get_or_create(rollout=rollout, audience=row.audience)
    arrived = RolloutMember.objects.filter(
        rollout=rollout, audience=row.audience, **{f"{stamp}__isnull": True}
    ).update(**{stamp: timezone.now()})
    if arrived:
        kind = stamp.removesuffix("_at")
        timeline.note_rollout(rollout, f"agent-{kind}", agent=_name(row), revision=row.revision)


def _note_skip(rollout: Rollout, row: Recipient) -> None:
    RolloutMember.objects.filter(rollout=rollout, audience=row.audience).update(
        skipped_in=rollout.state
    )
    timeline.note_rollout(rollout, "agent-skipped", agent=_name(row), stage=rollout.state)


def _demand(row: Recipient, revision: int) -> None:
    """No lease below this revision from now on."""
    Recipient.objects.filter(pk=row.pk).update(
        minimum_revision=Greatest(F("minimum_revision"), revision)
    )


def _name(row: Recipient) -> str:
    return row.audience.partition(":")[2]
