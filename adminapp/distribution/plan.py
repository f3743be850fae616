"""A domain in plain, and what each agent is to hold of it: pure, without rows or keys.

Policies become rules of one conjunction each, split into the subject's side (encoded) and the
event's side (routing tags). Paper 000, sections on blinding and on privacy management.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

from adminapp.catalog.mapping import EVENT, SUBJECT
from adminapp.policies.language import PolicyConjunction
from policyengine.attributes import (
    Literal,
    Predicate,
    Value,
    literal_token,
    predicates_of,
    tokens_of,
    value_text,
)
from policyengine.bundles.decisions import DecisionSettings
from policyengine.bundles.encoded import RateLimit

BLIND_KINDS = frozenset({"searchable", "order-preserving"})
"""Protections under which an admitting agent sees no value."""


@dataclass(frozen=True)
class PlainAgent:
    """An agent that serves the domain; keys are public.

    Args:
        guest: whether it serves only guests, who come through agreements.
    """

    id: int
    name: str
    overlay: str
    sealing_key: bytes
    verify_key: bytes
    guest: bool = False


@dataclass(frozen=True)
class PlainPolicy:
    """A policy in force, or a part of it, in normal form over `subject.*` and `event.*`.

    Args:
        id: its number; with an agreement's mark for what that lets through of it.
        first: number of its first conjunction among all of the policy.
        agreement: the agreement whose guests it is for, or None for locals.
        suppresses: attributes whose place is kept where no policy permits them.
        lowers: None, or for a way to a super-type the attributes that it must lack.
        until: Unix time from which it says something else by itself; 0 for never.
        limit: how often it lets each publisher publish; guests share it with themselves,
            through whatever agreement they come.
    """

    id: int | str
    name: str
    action: str
    type: str
    attributes: tuple[str, ...] | None
    conjunctions: tuple[PolicyConjunction, ...]
    first: int = 0
    agreement: int | None = None
    suppresses: tuple[str, ...] = ()
    lowers: tuple[str, ...] | None = None
    until: int = 0
    limit: RateLimit | None = None


@dataclass(frozen=True)
class PlainSubject:
    """A client: what policies see of it, its home agent on each overlay, and its second one.

    Any of its variants may satisfy a policy, one as a whole; with none it has no rights.
    """

    handle: str
    kind: str
    variants: tuple[Mapping[str, Value], ...]
    homes: Mapping[str, str]
    sealing_key: bytes
    verify_key: bytes
    agreements: frozenset[int] = frozenset()
    seconds: Mapping[str, str] = field(default_factory=dict)
    by_filters: bool = False  # reads by keys that it asks for, not by those of its bundle

    def served_by(self, agent: PlainAgent) -> bool:
        """Whether it is at home there, or goes there when its home does not answer."""
        places = (self.homes.get(agent.overlay), self.seconds.get(agent.overlay))
        return agent.name in places


@dataclass(frozen=True)
class PlainWrap:
    """An epoch of a trust group's key, and the agents that hold it."""

    group: str
    epoch: int
    state: str
    key_id: str
    wrapped: str
    agents: frozenset[str]


@dataclass(frozen=True)
class PlainDomain:
    """Everything that bundles of one revision are made from."""

    id: int
    name: str
    revision: int
    lease_seconds: int
    types: tuple[Mapping[str, Any], ...]
    families: Mapping[str, frozenset[str]]
    policies: tuple[PlainPolicy, ...]
    subjects: tuple[PlainSubject, ...]
    agents: tuple[PlainAgent, ...]
    wraps: tuple[PlainWrap, ...]
    splits: Mapping[str, tuple[Mapping[str, Any], ...]]
    decisions: DecisionSettings | None = None

    @cached_property
    def subject_predicates(self) -> tuple[Predicate, ...]:
        """What subjects are tested for, beside equality and presence."""
        sides = [each.subject for policy in self.policies for each in policy.conjunctions]
        return predicates_of(sides, SUBJECT)

    @cached_property
    def seen(self) -> Mapping[str, frozenset[str]]:
        """For each type the attributes of its family whose values an admitting agent sees."""
        names: dict[str, set[str]] = {}
        hidden: dict[str, set[str]] = {}
        for spec in self.types:
            for each in spec["attributes"]:
                blind = each.get("protection", {}).get("kind") in BLIND_KINDS
                (hidden if blind else names).setdefault(str(spec["name"]), set()).add(each["name"])
        return {
            kind: frozenset[str]().union(*(names.get(each, ()) for each in family))
            - frozenset[str]().union(*(hidden.get(each, ()) for each in family))
            for kind, family in self.families.items()
        }

    @cached_property
    def overlays(self) -> tuple[str, ...]:
        """Overlays that carry the domain's events."""
        return tuple(sorted({agent.overlay for agent in self.agents}))

    def policies_at(self, agent: PlainAgent) -> tuple[PlainPolicy, ...]:
        """Policies that an agent is given: those of locals unless it serves only guests, and
        those of the agreements that its guests come through.
        """
        held = frozenset(number for s in self.at_home(agent) for number in s.agreements)
        return tuple(
            policy
            for policy in self.policies
            if (policy.agreement in held if policy.agreement is not None else not agent.guest)
        )

    def at_home(self, agent: PlainAgent) -> tuple[PlainSubject, ...]:
        """Subjects that this agent serves: as their home, or where that does not answer."""
        return tuple(s for s in self.subjects if s.served_by(agent))


@dataclass(frozen=True)
class PlainRule:
    """One conjunction of a policy, as one agent needs it.

    Args:
        policy: identifier of the policy.
        conjunction: which one of its normal form.
        binding: the values that joins were bound to, as text; empty without joins.
        subject_tokens: the subject's side, to be encoded.
        event_tokens: the event's side, to be tagged.
        proof_tokens: those of them that an agent checks against the values it admits.
        suppresses: as of `PlainPolicy`.
        lowers: as of `PlainPolicy`.
        until: as of `PlainPolicy`.
        limit: as of `PlainPolicy`.
    """

    policy: int | str
    conjunction: int
    binding: tuple[str, ...]
    action: str
    type: str
    subject_tokens: tuple[str, ...]
    event_tokens: tuple[str, ...]
    attributes: tuple[str, ...] | None
    proof_tokens: tuple[str, ...] = ()
    suppresses: tuple[str, ...] = ()
    lowers: tuple[str, ...] | None = None
    until: int = 0
    limit: RateLimit | None = None


@dataclass(frozen=True)
class AgentPlan:
    """What one agent holds in one epoch, in plain.

    Args:
        subjects: by handle the conjunctions of the subject: tokens of one or more variants.
    """

    rules: tuple[PlainRule, ...]
    subjects: Mapping[str, tuple[tuple[str, ...], ...]]

    @property
    def longest(self) -> int:
        """Tokens of the longest conjunction."""
        lengths = [len(rule.subject_tokens) for rule in self.rules]
        lengths += [len(held) for variants in self.subjects.values() for held in variants]
        return max(lengths, default=0)


def plan_agent(domain: PlainDomain, agent: PlainAgent, capacity: int | None = None) -> AgentPlan:
    """What an agent is to hold.

    Args:
        capacity: most tokens of a conjunction in the epoch, or None for no limit. What does not
            fit is left out: it grants nothing until an epoch with more room is in force.
    """
    local = domain.at_home(agent)
    rules = rules_for(
        domain.policies_at(agent),
        [each for subject in local for each in subject.variants],
        domain.seen,
    )
    if capacity is not None:
        rules = tuple(rule for rule in rules if len(rule.subject_tokens) <= capacity)
    # INVARIANT: a subject's encoding holds only tokens that some rule at this agent asks for;
    # what no policy names is in no encoding.
    asked = frozenset(token for rule in rules for token in rule.subject_tokens)
    subjects = {
        subject.handle: subject_conjunctions(
            subject.variants, domain.subject_predicates, asked, capacity
        )
        for subject in local
    }
    return AgentPlan(rules=rules, subjects={name: held for name, held in subjects.items() if held})


def longest_conjunction(domain: PlainDomain) -> int:
    """Tokens of the longest conjunction that any agent would hold."""
    return max((plan_agent(domain, agent).longest for agent in domain.agents), default=0)


def subject_conjunctions(
    variants: Iterable[Mapping[str, Value]],
    predicates: Iterable[Predicate],
    asked: frozenset[str],
    capacity: int | None = None,
) -> tuple[tuple[str, ...], ...]:
    """The tokens of each variant, in a fixed order, without those that another one has all of.

    A rule asks only for what is there, so a variant that has less than another grants nothing
    more. INVARIANT: tokens of two variants never stand together: what a principal may do in one
    activation of a role must not be opened by a parameter of another.
    """
    wanted = tuple(predicates)
    found = {subject_tokens(values, wanted, asked) for values in variants}
    sets = [
        (held, frozenset(held))
        for held in sorted(found, key=lambda held: (-len(held), held))
        if capacity is None or len(held) <= capacity
    ]
    return tuple(
        held
        for number, (held, tokens) in enumerate(sets)
        if not any(tokens <= other for _, other in sets[:number])
    )


def subject_tokens(
    values: Mapping[str, Value], predicates: Iterable[Predicate], asked: frozenset[str]
) -> tuple[str, ...]:
    """The tokens of a subject that rules ask for, sorted."""
    return tuple(token for token in tokens_of(values, predicates) if token in asked)


def rules_for(
    policies: Iterable[PlainPolicy],
    local: Iterable[Mapping[str, Value]],
    seen: Mapping[str, frozenset[str]] = MappingProxyType({}),
) -> tuple[PlainRule, ...]:
    """Rules for an agent that is home to subjects with these values, without doubles.

    Args:
        seen: for each type the attributes whose values the agent sees.
    """
    subjects = list(local)
    return tuple(
        rule
        for policy in policies
        for number, conjunction in enumerate(policy.conjunctions, policy.first)
        for rule in _rules_of(
            policy, number, conjunction, subjects, seen.get(policy.type, frozenset())
        )
    )


def _rules_of(
    policy: PlainPolicy,
    number: int,
    conjunction: PolicyConjunction,
    subjects: list[Mapping[str, Value]],
    seen: frozenset[str],
) -> list[PlainRule]:
    if not conjunction.joins:
        return [_rule(policy, number, conjunction, seen)]
    # A join becomes one rule for each value that a subject here holds (paper 000's policy
    # AP_A): the subject must have the value, and the event must be tagged with it.
    rules: dict[tuple[str, ...], PlainRule] = {}
    for values in subjects:
        event = conjunction.for_subject(values)
        if event is None:
            continue
        pinned = [Literal(join.left, "==", values[join.left]) for join in conjunction.joins]
        binding = tuple(value_text(values[join.left]) for join in conjunction.joins)
        way = PolicyConjunction((*conjunction.subject, *pinned), event, ())
        rules.setdefault(binding, _rule(policy, number, way, seen, binding))
    return [rules[binding] for binding in sorted(rules)]


def _rule(
    policy: PlainPolicy,
    number: int,
    way: PolicyConjunction,
    seen: frozenset[str],
    binding: tuple[str, ...] = (),
) -> PlainRule:
    # What may be written is decided on the values themselves where an agent sees them: a
    # publisher's own tags are only its word.
    proved = [each for each in way.event if each.attribute.removeprefix(EVENT) in seen]
    return PlainRule(
        policy=policy.id,
        conjunction=number,
        binding=binding,
        action=policy.action,
        type=policy.type,
        subject_tokens=_tokens(way.subject),
        event_tokens=_tokens(way.event),
        attributes=policy.attributes,
        proof_tokens=_tokens(proved) if policy.action == "publish" else (),
        suppresses=policy.suppresses,
        lowers=policy.lowers,
        until=policy.until,
        limit=policy.limit,
    )


def _tokens(literals: Iterable[Literal]) -> tuple[str, ...]:
    return tuple(sorted({literal_token(literal) for literal in literals}))


def published_types(domain: PlainDomain, subject: PlainSubject) -> tuple[str, ...]:
    """Types that a subject may publish when the event's values allow it, sorted."""
    return tuple(
        sorted(
            {
                policy.type
                for policy in domain.policies
                if policy.action == "publish"
                and any(
                    each.for_subject(values) is not None
                    for each in policy.conjunctions
                    for values in subject.variants
                )
            }
        )
    )


def proof_predicates(
    domain: PlainDomain, agent: PlainAgent, plan: AgentPlan
) -> tuple[Predicate, ...]:
    """Predicates that an agent tests the values of publications for, beside equality."""
    proved = frozenset(token for rule in plan.rules for token in rule.proof_tokens)
    sides = [
        tuple(literal for literal in each.event if literal_token(literal) in proved)
        for policy in domain.policies_at(agent)
        if policy.action == "publish"
        for each in policy.conjunctions
    ]
    return predicates_of(sides, EVENT)


def event_predicates(domain: PlainDomain, published: Iterable[str]) -> tuple[Predicate, ...]:
    """Predicates that a publisher of these types must tag for: of policies about their trees."""
    kin = frozenset(name for kind in published for name in domain.families.get(kind, ()))
    concerned = [policy for policy in domain.policies if policy.type in kin]
    sides = [each.event for policy in concerned for each in policy.conjunctions]
    return predicates_of(sides, EVENT)
