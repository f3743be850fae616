"""What is where: agents and their acknowledged revisions, revocations, what a broker sees.

Every figure about an agent comes from its signed acknowledgements and lease requests,
never from what was sent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db.models import Count, Max, Prefetch, QuerySet
from django.utils import timezone

from adminapp.distribution import scopes, stages
from adminapp.distribution.brokerview import AgentView, BrokerView, RuleView, broker_view
from adminapp.distribution.models import (
    Bundle,
    BundleChunk,
    EncodingEpoch,
    Notice,
    Recipient,
    RecomputeJob,
    Revocation,
    RevocationEvent,
)
from adminapp.distribution.serving import serving_agents
from adminapp.identity.models import Agent, Domain
from policyengine.bundles.addresses import audience

__all__ = [
    "AgentDomain",
    "AgentRow",
    "AgentView",
    "BrokerView",
    "DomainProgress",
    "RuleView",
    "Timeline",
    "agent_rows",
    "broker_view",
    "bundles",
    "domain_progress",
    "encoding_epochs",
    "recompute_jobs",
    "revocation_timeline",
    "revocations",
    "standing_of",
]


@dataclass(frozen=True)
class AgentDomain:
    """What one agent holds of one domain.

    Args:
        domain: name of the domain.
        revision: the revision it says it applied; 0 before the first.
        target: the newest revision built for it.
        state: `silent` (never heard of, or its lease has ended), `contradicts` (it says that it
            holds what was never built for it), `held` (its stage of a rollout is not in force),
            `behind`, `rejected` or `current`.
        reason: why it refused the last bundle, else "".
        notice: number of the last notice it applied.
        target_notice: number of the last notice written for it.
        epochs: encoding epochs it holds, number -> state.
        leased_until: end of the lease it was last given, or None.
        leased: whether that end is still ahead.
        last_seen: when it last said something that verified.
        root: the root of trust that it said it trusts; 0 before it asked for a lease.
    """

    domain: str
    revision: int
    target: int
    state: str
    reason: str
    notice: int
    target_notice: int
    epochs: dict[str, str]
    leased_until: datetime | None
    leased: bool
    last_seen: datetime | None
    root: int = 0


@dataclass(frozen=True)
class AgentRow:
    """One agent with all domains it serves that the reader may see."""

    id: int
    name: str
    overlay: str
    state: str
    registered_at: datetime
    last_seen: datetime | None
    leased: bool
    domains: tuple[AgentDomain, ...]


@dataclass(frozen=True)
class DomainProgress:
    """ "17 of 18 agents at revision 412".

    Args:
        applied: those that signed that they hold it, that hold a lease or never had one, and for
            whom what they name was built.
        behind: all the others, those of the next two included.
        silent: those whose lease has ended, or that never said anything.
        contradicting: those that say they hold what was never built for them.
    """

    domain: str
    revision: int
    agents: int
    applied: int
    behind: tuple[str, ...]
    silent: tuple[str, ...] = ()
    contradicting: tuple[str, ...] = ()


@dataclass(frozen=True)
class Timeline:
    """A revocation with everything that happened, for the live page."""

    revocation: Revocation
    events: tuple[RevocationEvent, ...]
    notices: tuple[Notice, ...]
    job: RecomputeJob | None
    receipt: dict[str, Any] | None


def agent_rows(user: Any = None) -> list[AgentRow]:
    """All agents, each with the domains that `user` may see (None: all of them)."""
    domains = _domains(user)
    entries: dict[str, list[AgentDomain]] = defaultdict(list)
    for domain in domains:
        for agent, entry in _domain_entries(domain):
            entries[agent.name].append(entry)
    agents = Agent.objects.select_related("overlay")
    visible = agents if user is None else agents.visible_to(user)
    return [_agent_row(agent, entries[agent.name]) for agent in visible]


def standing_of(agent: Agent, user: Any = None) -> list[AgentDomain]:
    """What one agent holds of the domains that it serves and `user` may see (None: all)."""
    return [
        entry
        for domain in _domains(user)
        for each, entry in _domain_entries(domain)
        if each.pk == agent.pk
    ]


def domain_progress(domain: Domain) -> DomainProgress:
    """How many of a domain's agents applied its newest revision."""
    entries = _domain_entries(domain)
    return DomainProgress(
        domain=domain.name,
        revision=domain.revision,
        agents=len(entries),
        applied=sum(entry.state == "current" for _, entry in entries),
        behind=tuple(agent.name for agent, entry in entries if entry.state != "current"),
        silent=_in_state(entries, "silent"),
        contradicting=_in_state(entries, "contradicts"),
    )


def _in_state(entries: Iterable[tuple[Agent, AgentDomain]], state: str) -> tuple[str, ...]:
    return tuple(agent.name for agent, entry in entries if entry.state == state)


def revocations(user: Any = None) -> QuerySet[Revocation]:
    """Revocations that `user` may see, newest first (None: all)."""
    found = Revocation.objects.select_related("domain", "principal", "actor", "rollout")
    return found if user is None else found.visible_to(user)


def revocation_timeline(revocation_id: int | str) -> Timeline:
    """A revocation by number or uid; raises Revocation.DoesNotExist."""
    lookup = {"uid": revocation_id} if _is_uid(revocation_id) else {"pk": revocation_id}
    found = (
        Revocation.objects.select_related("domain", "principal", "actor", "rollout")
        .prefetch_related("events", Prefetch("notices", Notice.objects.defer("message")))
        .get(**lookup)
    )
    return Timeline(
        revocation=found,
        events=tuple(found.events.all()),
        notices=tuple(found.notices.all()),
        job=_job_of(found),
        receipt=found.receipt,
    )


def bundles(domain: Domain, to: str | None = None) -> QuerySet[Bundle]:
    """Bundles of a domain without their bytes, newest first."""
    found = Bundle.objects.filter(domain=domain).defer("message").order_by("-revision", "audience")
    return found if to is None else found.filter(audience=to)


def pieces(found: Iterable[Bundle]) -> dict[int, int]:
    """In how many pieces bundles travel, by primary key; one that is no larger than a message is
    left out.
    """
    rows = BundleChunk.objects.filter(bundle__in=[bundle.pk for bundle in found])
    return dict(rows.order_by().values_list("bundle").annotate(Count("pk")))


def encoding_epochs(domain: Domain) -> QuerySet[EncodingEpoch]:
    """The domain's encoding epochs, newest first."""
    return EncodingEpoch.objects.filter(domain=domain).order_by("-number")


def recompute_jobs(domain: Domain) -> QuerySet[RecomputeJob]:
    """Runs over a domain's encodings, newest first."""
    return RecomputeJob.objects.filter(domain=domain).select_related("epoch")


def _domains(user: Any) -> Iterable[Domain]:
    return Domain.objects.all() if user is None else Domain.objects.visible_to(user)


def _domain_entries(domain: Domain) -> list[tuple[Agent, AgentDomain]]:
    recipients = {row.audience: row for row in Recipient.objects.filter(domain=domain)}
    targets = _newest(Bundle, domain, "revision")
    notices = _newest(Notice, domain, "number")
    opened = stages.opened_agents(domain)
    found = []
    for agent in serving_agents(domain):
        name = audience("agent", agent.name)
        entry = _entry(domain, name, recipients, targets, notices)
        if opened is not None and agent.name not in opened and entry.state == "behind":
            # It holds all that it was to get until its stage comes.
            waits = entry.revision >= targets.get(name, 0)
            entry = replace(entry, state="held") if waits else entry
        found.append((agent, entry))
    return found


def _newest(model: Any, domain: Domain, field: str) -> dict[str, int]:
    found = model.objects.filter(domain=domain).order_by().values("audience")
    return {row["audience"]: row["top"] for row in found.annotate(top=Max(field))}


def _entry(
    domain: Domain,
    name: str,
    recipients: dict[str, Recipient],
    targets: dict[str, int],
    notices: dict[str, int],
) -> AgentDomain:
    held = recipients.get(name) or Recipient(audience=name, domain=domain)
    # INVARIANT: an agent counts as current only for the domain's own revision, not for the
    # newest bundle that happened to be built.
    target = max(domain.revision, targets.get(name, 0))
    return AgentDomain(
        domain=domain.name,
        revision=held.revision,
        target=target,
        state=_state(held, target),
        reason=held.reason,
        notice=held.notice,
        target_notice=notices.get(name, 0),
        epochs=dict(held.epochs),
        leased_until=held.leased_until,
        leased=_ahead(held.leased_until),
        last_seen=held.last_seen,
        root=held.root_version,
    )


def _state(held: Recipient, target: int) -> str:
    if held.last_seen is None:
        return "silent"
    if held.state == Recipient.State.CONTRADICTS:
        return "contradicts"
    if held.leased_until is not None and not _ahead(held.leased_until):
        return "silent"
    if held.revision >= target:
        return "current"
    return "rejected" if held.state == Recipient.State.REJECTED else "behind"


def _ahead(moment: datetime | None) -> bool:
    return moment is not None and moment > timezone.now()


def _agent_row(agent: Agent, entries: list[AgentDomain]) -> AgentRow:
    seen = [entry.last_seen for entry in entries if entry.last_seen]
    return AgentRow(
        id=agent.pk,
        name=agent.name,
        overlay=agent.overlay.name,
        state=agent.state,
        registered_at=agent.registered_at,
        last_seen=max(seen, default=None),
        leased=any(entry.leased for entry in entries),
        domains=tuple(entries),
    )


def _is_uid(value: int | str) -> bool:
    return isinstance(value, str) and len(value) == 32


def _job_of(revocation: Revocation) -> RecomputeJob | None:
    return scopes.job_of(revocation.rollout) if revocation.rollout is not None else None
