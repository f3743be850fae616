"""Reads a domain as it is at one revision, in plain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from django.utils import timezone

from adminapp.agreements import effect
from adminapp.agreements import selectors as agreements
from adminapp.catalog import selectors as catalog
from adminapp.distribution import decisionlogs, foreign
from adminapp.distribution.models import FilterReader
from adminapp.distribution.plan import (
    PlainAgent,
    PlainDomain,
    PlainPolicy,
    PlainSubject,
    PlainWrap,
)
from adminapp.distribution.serving import (
    clients_of,
    homes_of,
    own_agents,
    seconds_of,
    serving_agents,
)
from adminapp.identity.models import Domain
from adminapp.policies import selectors as policies
from adminapp.policies.language import Language
from adminapp.policies.models import Policy
from adminapp.policies.valuerules import ACCESS
from adminapp.privacy import selectors as privacy
from adminapp.roles import selectors as roles
from adminapp.trustgroups import selectors as trustgroups
from policyengine.bundles.encoded import RateLimit
from policyengine.events import EventTypes
from policyengine.primitives.canonical import unb64

T = TypeVar("T")


def steady(domain_id: int, read: Callable[[Domain], T]) -> T:
    """What `read` finds while the domain's revision stands still.

    Every change raises the revision in its own transaction, so a read between two equal
    revisions saw all of each change or nothing of it, without holding up any writer.
    """
    while True:
        domain = Domain.objects.get(pk=domain_id)
        found = read(domain)
        if Domain.objects.values_list("revision", flat=True).get(pk=domain_id) == domain.revision:
            return found


def gather(domain: Domain) -> PlainDomain:
    """Everything that bundles of the domain's revision are made from."""
    moment = timezone.now()
    spoken = policies.language(domain, at=moment)
    agents = _agents(domain)
    serving = {agent.name for agent in agents}
    openings = agreements.openings(domain)
    return PlainDomain(
        id=domain.pk,
        name=domain.name,
        revision=domain.revision,
        lease_seconds=domain.lease_seconds,
        types=tuple(spec.to_json() for spec in catalog.wire_types(domain)),
        families=_families(spoken.types),
        policies=foreign.policies(
            plain_policies(domain, spoken, at=moment), openings, spoken.types
        ),
        subjects=(
            *_subjects(domain, serving, marked=bool(openings)),
            *foreign.subjects(domain, spoken.subject, serving),
        ),
        agents=agents,
        wraps=_wraps(domain),
        splits=_splits(domain, spoken.types),
        decisions=decisionlogs.settings_of(domain),
    )


def with_policies(domain: Domain, plain: PlainDomain, rows: list[Policy]) -> PlainDomain:
    """The same domain with other policies in the place of those of its newest revision."""
    moment = timezone.now()
    spoken = policies.language(domain, at=moment)
    held = plain_policies(domain, spoken, at=moment, rows=rows)
    openings = agreements.openings(domain)
    return replace(plain, policies=foreign.policies(held, openings, spoken.types))


def _agents(domain: Domain) -> tuple[PlainAgent, ...]:
    own = set(own_agents(domain).values_list("name", flat=True))
    return tuple(
        PlainAgent(
            id=row.pk,
            name=row.name,
            overlay=row.overlay.name,
            sealing_key=unb64(row.sealing_key),
            verify_key=unb64(row.verify_key),
            guest=row.name not in own,
        )
        for row in serving_agents(domain)
    )


def _subjects(domain: Domain, serving: set[str], *, marked: bool) -> tuple[PlainSubject, ...]:
    rows = list(clients_of(domain))
    mark = {effect.LOCAL: True} if marked else {}
    values = roles.subject_values_of(domain, rows)
    by_filters = set(FilterReader.objects.filter(principal__domain=domain).values_list(flat=True))
    return tuple(
        PlainSubject(
            handle=row.handle,
            kind=row.kind,
            variants=tuple({**dict(each), **mark} for each in values[row.pk]),
            homes=homes_of(row, serving),
            seconds=seconds_of(row, serving),
            sealing_key=unb64(row.sealing_key),
            verify_key=unb64(row.verify_key),
            by_filters=row.pk in by_filters,
        )
        for row in rows
    )


def plain_policies(
    domain: Domain,
    spoken: Language,
    *,
    at: datetime | None = None,
    rows: list[Policy] | None = None,
) -> tuple[PlainPolicy, ...]:
    """What the policies in force permit, in normal form; one policy may come in several parts.

    Policies that no longer fit the model grant nothing. Those to define and to advertise types are
    enforced in the control plane: what publishers must be able to advertise is in their parts.

    Args:
        at: the moment that the language was built for, where it matters when a policy ends.
        rows: the policies to go by; those of the newest revision where none are given.
    """
    rows = policies.effective_rows(domain) if rows is None else rows
    ends = {} if at is None else policies.ends(domain, rows, spoken, after=at)
    found = [*policies.grants_of(rows, spoken), *policies.lowerings_of(rows, spoken)]
    return tuple(
        PlainPolicy(
            id=grant.policy.pk,
            name=grant.policy.name,
            action=grant.policy.action,
            type=grant.root,
            attributes=grant.attributes,
            conjunctions=grant.conjunctions,
            first=grant.first,
            suppresses=grant.suppresses,
            lowers=grant.lowers,
            until=int(ends[grant.policy.pk].timestamp()) if grant.policy.pk in ends else 0,
            limit=_limit(grant.policy),
        )
        for grant in found
        if grant.policy.action in ACCESS
    )


def _limit(policy: Policy) -> RateLimit | None:
    if policy.limit_count is None or policy.limit_seconds is None:
        return None
    # A number, as rules have it: agents need not read what the policy is about.
    return RateLimit(f"policy-{policy.pk}", policy.limit_count, policy.limit_seconds)


def _wraps(domain: Domain) -> tuple[PlainWrap, ...]:
    return tuple(
        PlainWrap(
            group=row.group_ref,
            epoch=row.number,
            state=row.state,
            key_id=row.key_id,
            wrapped=row.wrapped,
            agents=frozenset(
                trustgroups.agents_for(domain, row.group_ref).values_list("name", flat=True)
            ),
        )
        for row in trustgroups.live_epochs(domain).select_related("domain")
    )


def _families(types: EventTypes) -> dict[str, frozenset[str]]:
    """For each type the types that share events with it: those above and those below."""
    return {
        name: frozenset({name, *types.ancestors(name), *types.subtree(name)})
        for name in types.names
    }


def _splits(domain: Domain, types: EventTypes) -> dict[str, tuple[Mapping[str, Any], ...]]:
    """The split of every type: its own, or that of the nearest type above."""
    own = privacy.active_splits(domain)
    found: dict[str, tuple[Mapping[str, Any], ...]] = {}
    for name in types.names:
        holder = next((each for each in (name, *types.ancestors(name)) if each in own), None)
        if holder is not None:
            found[name] = tuple(own[holder])
    return found
