"""Changes of users, memberships and tokens."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from datetime import timedelta

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.utils import timezone

from adminapp.audit import services as audit
from adminapp.core import versions
from adminapp.core.errors import Forbidden, Invalid, Problem
from adminapp.identity import mapping, permissions, selectors
from adminapp.identity.models import (
    ApiToken,
    Domain,
    Membership,
    User,
)
from adminapp.identity.recording import record_row

TOKEN_PREFIX = "pct_"  # noqa: S105 - makes leaked tokens easy to find
MAX_TOKEN_DAYS = 365


@audit.change
def create_user(
    *,
    actor: User | None,
    username: str,
    password: str | None = None,
    email: str = "",
    operator: bool = False,
) -> User:
    """A new user; without a password nobody can sign in as them (tokens still work)."""
    permissions.require_operator(actor)
    user = User(username=username, email=email, is_superuser=operator)
    _set_password(user, password)
    versions.create(user)
    record_row(actor, None, "user.created", user, after=mapping.user(user), affects_agents=False)
    return user


@audit.change
def set_password(*, actor: User | None, user: User, password: str) -> None:
    """Set a password; everybody sets their own, operators anybody's."""
    if actor is not None and actor.pk != user.pk:
        permissions.require_operator(actor)
    user = versions.locked(user, None)
    _set_password(user, password)
    versions.save(user)
    record_row(actor, None, "user.password-set", user, affects_agents=False)


@audit.change
def deactivate_user(*, actor: User | None, user: User, expected_version: int | None = None) -> User:
    """Nobody signs in as them any more, and their tokens are gone."""
    permissions.require_operator(actor)
    user = versions.locked(user, expected_version)
    before = mapping.user(user)
    user.is_active = False
    versions.save(user)
    user.tokens.all().delete()
    record_row(
        actor,
        None,
        "user.deactivated",
        user,
        before=before,
        after=mapping.user(user),
        affects_agents=False,
    )
    return user


def _set_password(user: User, password: str | None) -> None:
    if password is None:
        user.set_unusable_password()
        return
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise Invalid(Problem("/password", text) for text in error.messages) from error
    user.set_password(password)


@audit.change
def set_membership(*, actor: User | None, user: User, domain: Domain, role: str) -> Membership:
    """Make a user manager or auditor of a domain, whatever they were before."""
    permissions.require_manager(actor, domain)
    row = Membership.objects.filter(user=user, domain=domain).first()
    before = None if row is None else mapping.membership(row)
    if row is None:
        row = versions.create(Membership(user=user, domain=domain, role=role))
    else:
        row.role = role
        versions.save(row)
    after = mapping.membership(row)
    record_row(
        actor, domain, "membership.set", row, before=before, after=after, affects_agents=False
    )
    return row


@audit.change
def remove_membership(
    *, actor: User | None, membership: Membership, expected_version: int | None = None
) -> None:
    domain = membership.domain
    permissions.require_manager(actor, domain)
    row = versions.locked(membership, expected_version)
    before, pk = mapping.membership(row), row.pk
    row.delete()
    row.pk = pk
    record_row(
        actor,
        domain,
        "membership.removed",
        row,
        before=before,
        affects_agents=False,
        revokes=True,
    )


@audit.change
def issue_token(
    *,
    actor: User,
    user: User,
    name: str,
    scopes: Iterable[str],
    days: int = 90,
    domains: Iterable[Domain] | None = None,
) -> tuple[ApiToken, str]:
    """A new token and its secret, which is shown this once and not kept.

    Args:
        domains: those that the token opens, and nothing of the platform; None is all that its
            user may do.
    """
    if actor is not None and actor.pk != user.pk:
        raise Forbidden("tokens are issued by their own user")
    wanted = sorted(set(scopes))
    unknown = [scope for scope in wanted if scope not in ApiToken.SCOPES]
    if unknown or not wanted:
        allowed = ", ".join(ApiToken.SCOPES)
        raise Invalid.at("/scopes", f"name at least one of {allowed}, and no other")
    if not 1 <= days <= MAX_TOKEN_DAYS:
        raise Invalid.at("/days", f"a token lives 1 to {MAX_TOKEN_DAYS} days")
    kept_to = None if domains is None else list(domains)
    if kept_to == []:
        raise Invalid.at("/domains", "name at least one domain, or leave it out")
    secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
    token = versions.create(
        ApiToken(
            user=user,
            name=name,
            hash=selectors.token_hash(secret),
            scopes=wanted,
            expires=timezone.now() + timedelta(days=days),
            restricted=kept_to is not None,
        )
    )
    token.domains.set(kept_to or [])
    record_row(actor, None, "token.issued", token, after=mapping.token(token), affects_agents=False)
    return token, secret


@audit.change
def revoke_token(
    *, actor: User | None, token: ApiToken, expected_version: int | None = None
) -> None:
    """The token stops working at once."""
    if actor is not None and actor.pk != token.user_id:
        permissions.require_operator(actor)
    row = versions.locked(token, expected_version)
    before, pk = mapping.token(row), row.pk
    row.delete()
    row.pk = pk
    record_row(actor, None, "token.revoked", row, before=before, affects_agents=False)


def note_token_use(*, token: ApiToken) -> None:
    """Remember when a token was last used, to the minute: a write for each call is too dear."""
    now = timezone.now()
    if token.last_used is None or now - token.last_used > timedelta(minutes=1):
        ApiToken.objects.filter(pk=token.pk).update(last_used=now)
