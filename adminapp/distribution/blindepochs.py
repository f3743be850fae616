"""Blind epochs of a domain: when one begins, why another follows, and the steps they go through."""

from __future__ import annotations

from django.conf import settings
from django.db.models import Max

from adminapp.core.authority import get_authority
from adminapp.distribution.models import BlindEpoch, BlindKey, EncodingEpoch
from adminapp.identity.models import Agent, Domain, Principal
from policyengine.bundles.addresses import audience
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


def note_gone(domain: Domain) -> None:
    """Note it where somebody who holds keys of the current epoch is gone."""
    held = current(domain)
    if held is None or held.due:
        return
    if _readers_left(held):
        note_due(held, "a reader was revoked")
    elif _agents_left(held):
        note_due(held, "an agent was banned")


def forget(domain: Domain, handle: str) -> None:
    """Drop what was sealed for a client that is revoked, and its agents' shares; inside a change.

    That it held keys stays known: another epoch must follow.
    """
    keys = BlindKey.objects.filter(epoch__domain=domain)
    keys.filter(kind=BlindKey.Kind.SHARE, name=handle).delete()
    keys.filter(kind=BlindKey.Kind.ORDER, audience=audience("client", handle)).delete()
    keys.filter(kind=BlindKey.Kind.CLIENT, name=handle).update(sealed=b"", wanted="")


def lose(domain: Domain, handle: str, reason: str) -> None:
    """Drop what was sealed for a client whose keys somebody else may have; another epoch follows
    where it held any. Inside a change.
    """
    held = current(domain)
    if held is not None and held.keys.filter(kind=BlindKey.Kind.CLIENT, name=handle).exists():
        note_due(held, reason)
    forget(domain, handle)


def due(domain: Domain) -> bool:
    """Whether another epoch is to follow the current one."""
    held = current(domain)
    return held is not None and (held.due != "" or _readers_left(held) or _agents_left(held))


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


def _readers_left(epoch: BlindEpoch) -> bool:
    """Whether somebody with keys of the epoch is no principal of the domain any more."""
    there = Principal.objects.filter(domain=epoch.domain_id, state=Principal.State.ACTIVE)
    enrolled = epoch.keys.filter(kind=BlindKey.Kind.CLIENT)
    return enrolled.exclude(name__in=there.values("handle")).exists()


def _agents_left(epoch: BlindEpoch) -> bool:
    """Whether an agent that was banned has shares of the epoch."""
    banned = Agent.objects.filter(state=Agent.State.BANNED).values_list("name", flat=True)
    shares = epoch.keys.filter(kind=BlindKey.Kind.SHARE)
    return shares.filter(audience__in=[audience("agent", name) for name in banned]).exists()


def _next_number(domain: Domain) -> int:
    found = BlindEpoch.objects.filter(domain=domain).aggregate(top=Max("number"))
    return (found["top"] or 0) + 1
