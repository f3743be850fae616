"""Reads of policies: what they permit, and their normal form for encoding."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from adminapp.agreements import selectors as agreements
from adminapp.catalog import protections
from adminapp.catalog import selectors as catalog
from adminapp.catalog.mapping import event_types
from adminapp.core import journal
from adminapp.identity import selectors as identity
from adminapp.identity.lineage import Inherited, inherited, lineage, nearest
from adminapp.identity.models import Domain
from adminapp.policies.access import Rule, Subject
from adminapp.policies.environment import environment
from adminapp.policies.grants import Grant, advertising, all_grants, lowerings
from adminapp.policies.language import ENVIRONMENT, Language, PolicyConjunction
from adminapp.policies.models import Policy, PolicyVersion
from adminapp.policies.valuerules import ACCESS
from adminapp.roles import selectors as roles
from policyengine.attributes import Literal
from policyengine.errors import InputError


def policies(user: Any, domain: Domain | None = None) -> QuerySet[Policy]:
    found = Policy.objects.visible_to(user).select_related("domain", "event_type")
    return found if domain is None else found.filter(domain=domain)


def versions(user: Any, policy: Policy) -> QuerySet[PolicyVersion]:
    """What a policy was, newest first."""
    return (
        PolicyVersion.objects.visible_to(user)
        .filter(policy=policy)
        .select_related("actor")
        .order_by("-number")
    )


def effective_policies(domain: Domain) -> list[Inherited[Policy]]:
    """The domain's policies and those of the domains above it, in order of names."""
    return list(inherited(_of_lineage(domain), lineage(domain)).values())


def effective_rows(
    domain: Domain, *, without: Policy | None = None, also: Policy | None = None
) -> list[Policy]:
    """The policies of the effective model, as they are or as they would be.

    Args:
        without: a policy to leave out; one that it hides comes to light.
        also: a policy, saved or not, to put in.
    """
    rows = [row for row in _of_lineage(domain) if without is None or row.pk != without.pk]
    return list(nearest([*rows, *([also] if also else [])], lineage(domain)).values())


def _of_lineage(domain: Domain) -> QuerySet[Policy]:
    line = lineage(domain)
    return Policy.objects.filter(domain__in=line).select_related("event_type", "domain").order_by()


def policies_in_force(domain: Domain, *, at: datetime | None = None) -> list[Policy]:
    """Those of the effective model that are enabled and valid at a moment (now by default).

    Whether the environment lets them grant anything is another question, see `grants_in_force`.
    """
    return [row for row in effective_rows(domain) if row.in_force(at)]


def language(domain: Domain, *, at: datetime | None = None) -> Language:
    """What expressions of a domain may say, as the environment is at a moment (now by default).

    Build it once for many policies; within one change it is built once for as long as only
    policies are changed.
    """
    return journal.remember(
        ("policies.language", domain.pk, at), lambda: _language(domain, at), despite=_NO_WORDS
    )


_NO_WORDS = frozenset({"policy"})
"""Kinds of objects that add no words to the language."""


def _language(domain: Domain, at: datetime | None) -> Language:
    surroundings = environment(domain)
    types = catalog.domain_types(domain)
    return Language(
        subject={**catalog.subject_schema(domain), **roles.parameter_schema(domain)},
        roles=roles.role_names(domain),
        types=event_types(types),
        environment=surroundings.schema,
        values=surroundings.at(at or timezone.now()),
        protections={
            name: {attribute: held.protection.kind for attribute, held in of_type.items()}
            for name, of_type in protections.in_force(types).items()
        },
    )


def policy_conjunctions(
    policy: Policy, *, spoken: Language | None = None
) -> tuple[PolicyConjunction, ...]:
    """The normal form of a policy's expression now, split into its sides.

    Args:
        spoken: the domain's language, when the caller has it already.

    Raises:
        InputError: the policy no longer fits the domain's model.
    """
    found = spoken or language(policy.domain)
    return found.conjunctions(policy.expression, policy.event_type.name)


def grants_of(rows: Iterable[Policy], spoken: Language, at: datetime | None = None) -> list[Grant]:
    """Everything that policies permit at a moment (now by default).

    Args:
        rows: every policy to go by, whether in force or not.
        spoken: the domain's language at that moment.
    """
    known = list(rows)
    now = [row for row in known if row.in_force(at)]
    return all_grants(now, spoken, advertising(known, spoken, now))


def lowerings_of(rows: Iterable[Policy], spoken: Language) -> list[Grant]:
    """What lets events become events of super-types now."""
    known = list(rows)
    now = [row for row in known if row.in_force()]
    advertised = advertising(known, spoken, now)
    found: list[Grant] = []
    for row in now:
        with contextlib.suppress(InputError):  # as in `all_grants`
            found += lowerings(row, spoken, advertised)
    return found


def rules_of(rows: Iterable[Policy], spoken: Language, at: datetime | None = None) -> list[Rule]:
    """`grants_of`, ready to be evaluated; one policy may come as several rules."""
    return [
        Rule(
            policy=grant.policy.name,
            action=grant.policy.action,
            types={name: _permitted(grant, spoken, name) for name in grant.types},
            conjunctions=grant.conjunctions,
        )
        for grant in grants_of(rows, spoken, at)
    ]


def subjects(domain: Domain, *, at: datetime | None = None) -> list[Subject]:
    """The active principals as policies see them, in a constant number of queries.

    A principal stands there once for each of its variants (`roles.selectors.subject_values_of`).
    """
    principals = list(identity.active_principals(domain))
    values = roles.subject_values_of(domain, principals, at=at)
    return [
        Subject(row.name, row.handle, row.kind, dict(variant))
        for row in principals
        for variant in values[row.pk]
    ]


def next_boundary(domain: Domain, *, after: datetime) -> datetime | None:
    """When access next changes by itself: a policy, appointment or agreement begins or ends, a
    certificate runs out, or the clock decides anew.
    """
    rows = effective_rows(domain)
    moments = [moment for row in rows for moment in (row.valid_from, row.valid_until) if moment]
    moments += [
        moment
        for moment in (
            identity.next_expiry(domain, after=after),
            agreements.next_boundary(domain, after=after),
            roles.next_boundary(domain, after=after),
            _next_by_the_clock(domain, rows, after),
        )
        if moment is not None
    ]
    return min((moment for moment in moments if moment > after), default=None)


def ends(
    domain: Domain, rows: Iterable[Policy], spoken: Language, *, after: datetime
) -> dict[int, datetime]:
    """When each policy next says something else by itself: it ends, or the clock decides anew.

    A policy to publish rests on those to advertise, and ends with the first of them.

    Args:
        spoken: the domain's language at that same moment.
        after: the moment.

    Returns:
        By primary key; a policy without an entry stays as it is until somebody changes it.
    """
    listed = [row for row in rows if row.in_force(after)]
    tests = {row.pk: _clock_tests(row, spoken) for row in listed}
    surroundings = environment(domain) if any(tests.values()) else None
    found: dict[int, datetime] = {}
    for row in listed:
        moments = [row.valid_until]
        if surroundings is not None:
            moments.append(surroundings.next_change(tests[row.pk], after))
        known = [moment for moment in moments if moment is not None]
        if known:
            found[row.pk] = min(known)
    advertising = [found[r.pk] for r in listed if r.action == "advertise" and r.pk in found]
    for row in listed:
        if row.action == "publish" and advertising:
            found[row.pk] = min(*advertising, found.get(row.pk, advertising[0]))
    return found


def _clock_tests(row: Policy, spoken: Language) -> list[Literal]:
    texts = (row.expression, *(rule["when"] for rule in row.rules if rule["when"]))
    kind = row.event_type.name
    return [each for text in texts if ENVIRONMENT in text for each in spoken.tests(text, kind)]


def _next_by_the_clock(domain: Domain, rows: Iterable[Policy], after: datetime) -> datetime | None:
    """When a test of the clock in an enabled policy, or a constraint of a role, first answers
    otherwise.
    """
    texts = [
        (text, row.event_type.name)
        for row in rows
        if row.enabled
        for text in (row.expression, *(rule["when"] for rule in row.rules if rule["when"]))
        if ENVIRONMENT in text
    ]
    tests = list(roles.clock_tests(domain))
    if texts:
        spoken = language(domain)
        tests += [literal for text, kind in texts for literal in spoken.tests(text, kind)]
    if not tests:
        return None
    return environment(domain).next_change(tests, after)


def _permitted(grant: Grant, spoken: Language, event_type: str) -> tuple[str, ...]:
    if grant.policy.action not in ACCESS:
        return ()
    names = [spec.name for spec in spoken.types.attributes(event_type)]
    allowed = grant.attributes
    return tuple(name for name in names if allowed is None or name in allowed)
