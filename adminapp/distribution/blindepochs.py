"""Blind epochs of a domain: when one begins, why another follows, and the steps they go through."""

from __future__ import annotations

from django.conf import settings
from django.db.models import Max

from adminapp.audit import services as audit
from adminapp.core.authority import get_authority
from adminapp.core.errors import Invalid
from adminapp.distribution.models import BlindEpoch, BlindKey, EncodingEpoch
from adminapp.identity import permissions
from adminapp.identity.models import Domain, Principal, User
from adminapp.identity.services import record_change
from policyengine.primitives.canonical import b64

State = EncodingEpoch.State
LIVE = (State.STAGED, State.CURRENT, State.DRAINING)


def live(domain: Domain) -> list[BlindEpoch]:
    """Epochs that agents and clients hold, oldest first: at most two."""
    return list(BlindEpoch.objects.filter(domain=domain, state__in=LIVE).order_by("number"))


def current(domain: Domain) -> BlindEpoch | None:
    """The epoch that new events are made in, or None where nothing is hidden."""
    return BlindEpoch.objects.filter(domain=domain, state=State.CURRENT).first()


def ensure(domain: Domain) -> bool:
    """Open the domain's first epoch, current from the start; True where there was none."""
    if live(domain):
        return False
    number = _next_number(domain)
    wrapped, public = get_authority().create_blind_master(domain.name, number)
    # Two compilers may meet here: the first row stays, both go on with that one.
    BlindEpoch.objects.get_or_create(
        domain=domain,
        number=number,
        defaults={
            "state": State.CURRENT,
            "client_state": State.CURRENT,
            "cause": "initial",
            "scheme": settings.ORDER_SCHEME,
            "wrapped": wrapped,
            "public": b64(public),
        },
    )
    return True


def note_due(epoch: BlindEpoch, reason: str) -> None:
    """Have another epoch follow this one soon."""
    BlindEpoch.objects.filter(pk=epoch.pk, due="").update(due=reason[:200])


def due(domain: Domain) -> bool:
    """Whether another epoch is to follow the current one."""
    held = current(domain)
    return held is not None and (held.due != "" or _readers_left(held))


def domains_due() -> list[int]:
    """Domains where it was noted that another epoch is to follow."""
    rows = BlindEpoch.objects.filter(state=State.CURRENT).exclude(due="").order_by()
    return [domain_id for (domain_id,) in rows.values_list("domain_id").distinct()]


def open_next(domain: Domain, cause: str) -> tuple[BlindEpoch | None, BlindEpoch | None]:
    """The current epoch and a new one in preparation, where one is due; call inside a change."""
    if not due(domain):
        return None, None
    number = _next_number(domain)
    wrapped, public = get_authority().create_blind_master(domain.name, number)
    fresh = BlindEpoch.objects.create(
        domain=domain,
        number=number,
        cause=cause,
        scheme=settings.ORDER_SCHEME,
        wrapped=wrapped,
        public=b64(public),
    )
    return current(domain), fresh


def destroy(epoch: BlindEpoch) -> None:
    """Forget a retired epoch's master and everything that was sealed in it."""
    epoch.keys.all().delete()
    BlindEpoch.objects.filter(pk=epoch.pk).update(wrapped="")


@audit.change
def rotate(*, actor: User | None, domain: Domain, reason: str) -> BlindEpoch:
    """Have new blind keys follow; the rollout that begins brings them to everybody.

    Raises:
        Forbidden: the actor does not manage the domain.
        Invalid: no reason is given, or the domain hides nothing.
    """
    permissions.require_manager(actor, domain)
    if not reason.strip():
        raise Invalid.at("/reason", "say why, for the audit")
    held = current(domain)
    if held is None:
        raise Invalid.at("/domain", "no attribute of this domain is hidden from agents")
    note_due(held, reason.strip())
    record_change(
        actor=actor,
        domain=domain,
        action="blind-epoch.rotation-ordered",
        object_type="blind epoch",
        object_id=held.pk,
        object_name=str(held),
        before=None,
        after={"epoch": held.number, "reason": reason.strip()},
        affects_agents=False,
    )
    return held


def _readers_left(epoch: BlindEpoch) -> bool:
    """Whether somebody with keys of the epoch is no principal of the domain any more."""
    there = Principal.objects.filter(domain=epoch.domain_id, state=Principal.State.ACTIVE)
    enrolled = epoch.keys.filter(kind=BlindKey.Kind.CLIENT)
    return enrolled.exclude(name__in=there.values("handle")).exists()


def _next_number(domain: Domain) -> int:
    found = BlindEpoch.objects.filter(domain=domain).aggregate(top=Max("number"))
    return (found["top"] or 0) + 1
