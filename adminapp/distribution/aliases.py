"""Another alias for an attribute whose alias is burnt: what it would touch, and having it done.

An alias is burnt where somebody learnt what an agent's encodings stand for, such as by what was
delivered to whom. Nobody loses a right by another one: it changes what encodings look like, and
nothing else (design decision 0050).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from adminapp.audit import services as audit
from adminapp.catalog.mapping import SUBJECT
from adminapp.core.errors import Invalid
from adminapp.distribution import epochs, scopes, stages
from adminapp.distribution.gather import gather, plain_policies, steady
from adminapp.distribution.models import EncodingEpoch, EncodingKey, RecomputeJob
from adminapp.distribution.plan import AgentPlan, PlainPolicy, plan_agent
from adminapp.distribution.scopes import Scope
from adminapp.distribution.stages import Views
from adminapp.identity import permissions
from adminapp.identity.models import Domain, User
from adminapp.identity.services import record_change
from adminapp.policies import selectors as policies
from policyengine.attributes import token_attribute
from policyengine.errors import InputError

State = EncodingEpoch.State

# The names that an agreement's guests have of their own stand for the same attribute.
_GUESTS = re.compile(rf"^{re.escape(SUBJECT)}agreement\.(?:a[0-9]+|none)\.?")


@dataclass(frozen=True)
class Alias:
    """An attribute that policies of a domain test subjects for.

    Args:
        attribute: its name, without `subject.`; `role.nurse` for a role.
        policies: names of the policies that test it.
        burnt: how often it was given another alias since the encoding epoch began.
    """

    attribute: str
    policies: tuple[str, ...]
    burnt: int


@dataclass(frozen=True)
class AtAgent:
    """What another alias touches at one agent."""

    agent: str
    clients: int
    rules: int

    @property
    def encodings(self) -> int:
        """All of it."""
        return self.clients + self.rules


@dataclass(frozen=True)
class Foreseen:
    """What another alias would touch; nobody loses or gains anything.

    Args:
        attribute: as of `Alias`.
        policies: names of the policies that test it.
        agents: those that hold something of it.
        encodings: how many are computed anew in all.
        kept: how many stay as they are.
        epoch: number of the encoding epoch, which stays the one in force.
        burnt: how often it was done in this epoch before.
    """

    attribute: str
    policies: tuple[str, ...]
    agents: tuple[AtAgent, ...]
    encodings: int
    kept: int
    epoch: int
    burnt: int


def aliases(domain: Domain) -> list[Alias]:
    """The attributes of subjects that policies of a domain test, and encodings hold, by name."""
    try:
        return _listed(domain, plain_policies(domain, policies.language(domain)))
    except InputError:
        return []  # the model contradicts itself; its own pages say how


def foresee(*, actor: User | None, domain: Domain, attribute: str) -> Foreseen:
    """What another alias for an attribute would touch now. Nothing is changed.

    Raises:
        Forbidden: the actor does not manage the domain.
        Invalid: nothing is encoded yet, or no encoding holds the attribute.
    """
    permissions.require_manager(actor, domain)
    return _foreseen(domain, attribute)[0]


@audit.change
def burn(*, actor: User | None, domain: Domain, attribute: str, reason: str) -> RecomputeJob:
    """Have an attribute encoded under another alias wherever it stands, within the epoch.

    Args:
        actor: a manager of the domain.
        domain: whose encodings.
        attribute: its name, with or without `subject.`; `role.nurse` for a role.
        reason: for the audit.

    Returns:
        The run that does it; a run that has not begun takes it in.

    Raises:
        Forbidden: the actor does not manage the domain.
        Invalid: no reason, nothing is encoded yet, or no encoding holds the attribute.
    """
    permissions.require_manager(actor, domain)
    if not reason.strip():
        raise Invalid.at("/reason", "say why, for the audit")
    # The epoch in force is held, so that the run is ordered for the one that was looked at.
    held = EncodingEpoch.objects.select_for_update().filter(domain=domain, state=State.CURRENT)
    epoch = held.first()
    found, scope = _foreseen(domain, attribute)
    assert epoch is not None  # or there was nothing to foresee
    job = scopes.order(domain=domain, epoch=epoch, scope=scope, cause="alias")
    record_change(
        actor=actor,
        domain=domain,
        action="alias.burnt",
        object_type="attribute alias",
        object_id=job.pk,
        object_name=found.attribute,
        before=None,
        after={
            "attribute": found.attribute,
            "reason": reason.strip(),
            "epoch": epoch.number,
            "encodings": found.encodings,
            "job": job.uid,
        },
        affects_agents=False,
    )
    return job


def plain_name(attribute: str) -> str:
    """What people call it: without `subject.`, and without an agreement's mark."""
    name = _GUESTS.sub("", attribute)
    return name.removeprefix(SUBJECT)


def _foreseen(domain: Domain, attribute: str) -> tuple[Foreseen, Scope]:
    name = plain_name(attribute)
    epoch = epochs.current(domain)
    if epoch is None:
        raise Invalid.at("/domain", "nothing of this domain is encoded yet")
    plain = steady(domain.pk, gather)
    views = stages.views(domain, plain)
    listed = {each.attribute: each for each in _listed(domain, _held(views))}
    if name not in listed:
        said = f"no policy tests subjects for `{name}`, so no encoding holds it"
        raise Invalid.at("/attribute", said, "unknown")
    room = epochs.capacity(epochs.parameters_of(epoch))
    agents, total, names = [], 0, set()
    for agent in plain.agents:
        plan = plan_agent(views.of(agent.name), agent, room)
        names |= _named(plan, name)
        one = AtAgent(agent.name, *_holding(plan, name))
        total += len(plan.rules) + sum(map(len, plan.subjects.values()))
        if one.encodings:
            agents.append(one)
    if not names:
        raise Invalid.at("/attribute", f"no agent holds an encoding of `{name}` now", "unknown")
    encodings = sum(one.encodings for one in agents)
    known = listed[name]
    found = Foreseen(
        name, known.policies, tuple(agents), encodings, total - encodings, epoch.number, known.burnt
    )
    return found, scopes.of_attributes(names)


def _holding(plan: AgentPlan, name: str) -> tuple[int, int]:
    """How many encodings of clients and of rules hold an attribute."""
    clients = sum(
        _holds(tokens, name) for variants in plan.subjects.values() for tokens in variants
    )
    return clients, sum(_holds(rule.subject_tokens, name) for rule in plan.rules)


def _holds(tokens: Iterable[str], name: str) -> bool:
    return any(plain_name(token_attribute(token)) == name for token in tokens)


def _named(plan: AgentPlan, name: str) -> set[str]:
    """The names under which an attribute stands in a plan, those of guests too."""
    sides = [rule.subject_tokens for rule in plan.rules]
    sides += [tokens for variants in plan.subjects.values() for tokens in variants]
    found = {token_attribute(token) for tokens in sides for token in tokens}
    return {each for each in found if plain_name(each) == name}


def _held(views: Views) -> Iterator[PlainPolicy]:
    """What agents hold: the newest policies, and those before where not all have these."""
    yield from views.newest.policies
    if views.accepted is not None:
        yield from views.accepted.policies


def _listed(domain: Domain, held: Iterable[PlainPolicy]) -> list[Alias]:
    named: dict[str, set[str]] = {}
    for policy in held:
        for attribute in _tested(policy):
            if name := plain_name(attribute):
                named.setdefault(name, set()).add(policy.name)
    burnt = _burnt(domain)
    return [Alias(name, tuple(sorted(named[name])), burnt[name]) for name in sorted(named)]


def _tested(policy: PlainPolicy) -> Iterator[str]:
    for conjunction in policy.conjunctions:
        for literal in conjunction.subject:
            yield literal.attribute
        for join in conjunction.joins:
            yield join.left


def _burnt(domain: Domain) -> Counter[str]:
    """By attribute the most that any agent's encodings were given another alias in the epoch."""
    found: Counter[str] = Counter()
    keys = EncodingKey.objects.filter(epoch__domain=domain, epoch__state=State.CURRENT)
    for held in keys.values_list("aliases", flat=True):
        for attribute, count in held.items():
            name = plain_name(attribute)
            found[name] = max(found[name], count)
    return found
