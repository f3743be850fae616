"""Tokens that let somebody ask once, and fleets that need nobody to answer."""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta

from django.utils import timezone

from adminapp.audit import services as audit
from adminapp.core import versions
from adminapp.core.errors import InUse, Invalid
from adminapp.enrolment import mapping, selectors
from adminapp.enrolment.models import EnrolmentToken, Fleet, Kind
from adminapp.identity import permissions
from adminapp.identity.models import Agent, Overlay, Principal, User
from adminapp.identity.recording import delete_row, record_row

TOKEN_PREFIX = "pce_"  # noqa: S105 - makes leaked tokens easy to find
TOKEN_SECONDS = 300


@audit.change
def issue_agent_token(
    *,
    actor: User | None,
    name: str = "",
    overlay: Overlay | None = None,
    fleet: Fleet | None = None,
) -> tuple[EnrolmentToken, str]:
    """A token for one agent, and its secret, which is shown this once and not kept.

    Args:
        name: of the agent; it may be there already, and then gets other keys. Of a fleet's agent
            it is left out.
        overlay: where it stands; the fleet's where it is one of a fleet.
        fleet: which confirms it without anybody looking.
    """
    permissions.require_operator(actor)
    if fleet is not None:
        if name or overlay is not None:
            raise Invalid.at("/fleet", "a fleet says which names and which overlay may be")
        _check_room(fleet)
        return _issue(actor, kind=Kind.AGENT, overlay=fleet.overlay, fleet=fleet)
    if not name or overlay is None:
        missing = "/overlay" if name else "/name"
        raise Invalid.at(missing, "an agent has a name and an overlay", "missing")
    check_agent(name, overlay)
    return _issue(actor, kind=Kind.AGENT, name=name, overlay=overlay)


@audit.change
def issue_client_token(*, actor: User | None, principal: Principal) -> tuple[EnrolmentToken, str]:
    """A token for a principal's client, and its secret, which is shown this once and not kept."""
    permissions.require_manager(actor, principal.domain)
    check_principal(principal)
    return _issue(actor, kind=Kind.CLIENT, principal=principal, domain=principal.domain)


@audit.change
def withdraw_token(
    *, actor: User | None, token: EnrolmentToken, expected_version: int | None = None
) -> None:
    """The token can no longer be spent."""
    _require(actor, token)
    row = versions.locked(token, expected_version)
    if row.spent_at is not None:
        raise InUse("this token was spent already; refuse the request instead")
    before, pk = mapping.token(row), row.pk
    row.delete()
    row.pk = pk
    record_row(
        actor,
        row.domain,
        "enrolment-token.withdrawn",
        row,
        before=before,
        affects_agents=False,
        revokes=True,
    )


@audit.change
def create_fleet(
    *, actor: User | None, name: str, overlay: Overlay, pattern: str, most: int, ends: datetime
) -> Fleet:
    """Agents of such names on an overlay are confirmed by themselves, so many, until an end."""
    permissions.require_operator(actor)
    if ends <= timezone.now():
        raise Invalid.at("/ends", "a fleet ends in the future")
    row = Fleet(name=name, overlay=overlay, pattern=pattern, most=most, ends=ends, created_by=actor)
    versions.create(row)
    record_row(actor, None, "fleet.created", row, after=mapping.fleet(row), affects_agents=False)
    return row


@audit.change
def end_fleet(*, actor: User | None, fleet: Fleet, expected_version: int | None = None) -> Fleet:
    """Nobody is confirmed because of it from now on; the agents that were stay."""
    permissions.require_operator(actor)
    row = versions.locked(fleet, expected_version)
    before = mapping.fleet(row)
    row.ends = min(row.ends, timezone.now())
    versions.save(row)
    record_row(
        actor,
        None,
        "fleet.ended",
        row,
        before=before,
        after=mapping.fleet(row),
        affects_agents=False,
        revokes=True,
    )
    return row


@audit.change
def delete_fleet(*, actor: User | None, fleet: Fleet, expected_version: int | None = None) -> None:
    """Only one that never confirmed anybody can go."""
    permissions.require_operator(actor)
    row = versions.locked(fleet, expected_version)
    if row.tokens.filter(spent_at__isnull=False).exists():
        raise InUse("this fleet has agents; end it instead")
    before, pk = mapping.fleet(row), row.pk
    delete_row(row, "this fleet is in use")
    row.pk = pk
    record_row(actor, None, "fleet.deleted", row, before=before, affects_agents=False)


def prune_tokens() -> int:
    """Forget tokens that nobody spent in time; that they were made stands in the audit."""
    old = timezone.now() - timedelta(days=1)
    gone, _ = EnrolmentToken.objects.filter(spent_at=None, expires__lt=old).delete()
    return gone


def check_agent(name: str, overlay: Overlay) -> None:
    """Raises Invalid unless an agent of this name may get keys there."""
    held = Agent.objects.filter(name=name).select_related("overlay").first()
    if held is None:
        return
    if held.overlay_id != overlay.pk:
        message = f"agent `{name}` stands on overlay `{held.overlay.name}`"
        raise Invalid.at("/overlay", message)
    if held.state == Agent.State.BANNED:
        raise Invalid.at("/name", f"agent `{name}` is banned; readmit it first")


def check_principal(principal: Principal) -> None:
    """Raises Invalid unless a principal's client may get keys."""
    if principal.state == Principal.State.REVOKED:
        raise Invalid.at("/principal", "a revoked principal gets no keys")
    if principal.broker_id is not None:
        raise Invalid.at("/principal", "a broker agent has its own keys: enrol the agent")


def _check_room(fleet: Fleet) -> None:
    if fleet.ends <= timezone.now():
        raise Invalid.at("/fleet", f"fleet `{fleet.name}` is over")
    if selectors.fleet_count(fleet) >= fleet.most:
        raise Invalid.at("/fleet", f"fleet `{fleet.name}` has its {fleet.most} agents")


def _require(actor: User | None, token: EnrolmentToken) -> None:
    if token.domain is None:
        permissions.require_operator(actor)
    else:
        permissions.require_manager(actor, token.domain)


def _issue(actor: User | None, **values: object) -> tuple[EnrolmentToken, str]:
    secret, now = TOKEN_PREFIX + secrets.token_urlsafe(32), timezone.now()
    row = EnrolmentToken(
        hash=selectors.token_hash(secret),
        created=now,
        expires=now + timedelta(seconds=TOKEN_SECONDS),
        created_by=actor,
        **values,
    )
    versions.create(row)
    record_row(
        actor,
        row.domain,
        "enrolment-token.issued",
        row,
        after=mapping.token(row),
        affects_agents=False,
    )
    return row, secret
