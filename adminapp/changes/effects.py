"""What follows from a change: access won and lost, agents to be told, encodings to be made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from adminapp.core.journal import Item
from adminapp.distribution.gather import gather
from adminapp.distribution.plan import PlainDomain
from adminapp.identity.lineage import descendants
from adminapp.identity.models import Domain
from adminapp.policies import reach
from adminapp.policies.access import Access
from adminapp.policies.reach import Reach

SHOWN = 200


@dataclass(frozen=True)
class AccessChange:
    """Something that a principal wins or loses.

    Args:
        domain: where.
        principal: who.
        action: publish or subscribe.
        type: of which event type.
        attributes: which attributes.
        condition: on the event, in words; "" is always.
    """

    domain: str
    principal: str
    action: str
    type: str
    attributes: tuple[str, ...]
    condition: str


@dataclass(frozen=True)
class Effects:
    """What a change would do to people, agents, keys and encodings.

    Args:
        gains: what principals could do that they cannot do now; the first ones.
        losses: what they could no longer do; the first ones.
        gained: how many gains there are in all.
        lost: how many losses there are in all.
        subscriptions: how many principals would no longer receive a type at all, by type.
        keys: attribute keys and hop keys that get a new epoch, as `domain: key`.
        agents: names of the agents that must be told.
        encodings: how many encodings would be made anew, over all agents.
    """

    gains: tuple[AccessChange, ...] = ()
    losses: tuple[AccessChange, ...] = ()
    gained: int = 0
    lost: int = 0
    subscriptions: tuple[tuple[str, int], ...] = ()
    keys: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    encodings: int = 0


@dataclass(frozen=True)
class State:
    """A domain at one moment: who may do what, and what agents hold."""

    reach: Reach
    plain: PlainDomain


def with_descendants(names: Iterable[str], shared: Iterable[str]) -> list[str]:
    """The named domains, and those below the ones whose change is inherited."""
    found = set(names)
    for domain in Domain.objects.filter(name__in=list(shared)):
        found.update(below.name for below in descendants(domain))
    return sorted(found)


def states(names: Iterable[str]) -> dict[str, State]:
    """How things stand in domains now."""
    rows = Domain.objects.filter(name__in=list(names)).select_related("parent").order_by("name")
    return {domain.name: State(reach.take(domain), gather(domain)) for domain in rows}


def between(
    before: Mapping[str, State], after: Mapping[str, State], items: Iterable[Item]
) -> Effects:
    """What the change from one state to the other does."""
    total = Effects()
    for name in sorted({*before, *after}):
        found = _in_domain(name, before.get(name), after.get(name))
        total = Effects(
            gains=(*total.gains, *found.gains)[:SHOWN],
            losses=(*total.losses, *found.losses)[:SHOWN],
            gained=total.gained + found.gained,
            lost=total.lost + found.lost,
            subscriptions=(*total.subscriptions, *found.subscriptions),
            agents=tuple(sorted({*total.agents, *found.agents})),
            encodings=total.encodings + found.encodings,
        )
    return replace(total, keys=_keys(items))


def _in_domain(name: str, old: State | None, new: State | None) -> Effects:
    made, told = _encodings(old, new)
    before, after = _reach(old, new), _reach(new, old)
    access = reach.compare(before, after, limit=SHOWN)
    return Effects(
        gains=tuple(_line(name, line) for line in access.gains),
        losses=tuple(_line(name, line) for line in access.losses),
        gained=access.gained,
        lost=access.lost,
        subscriptions=tuple((f"{name}: {kind}", count) for kind, count in _ended(before, after)),
        agents=tuple(told),
        encodings=made,
    )


def _reach(state: State | None, other: State | None) -> Reach:
    """Who may do what; in a domain that is not there nobody may do anything."""
    if state is not None:
        return state.reach
    assert other is not None, "a domain that neither was nor is"
    return other.reach.empty()


def _keys(items: Iterable[Item]) -> tuple[str, ...]:
    return tuple(
        sorted(
            {
                f"{item.domain}: {item.after['group']}"
                for item in items
                if item.action == "key-epoch.created" and item.after
            }
        )
    )


def _line(domain: str, line: Access) -> AccessChange:
    return AccessChange(
        domain, line.principal, line.action, line.type, line.attributes, line.condition
    )


def _ended(before: Reach, after: Reach) -> list[tuple[str, int]]:
    """How many principals no longer receive a type at all, by type."""
    counts = {
        kind: len(set(before.who("subscribe", kind)) - set(after.who("subscribe", kind)))
        for kind in sorted(before.types)
    }
    return [(kind, count) for kind, count in counts.items() if count]


def _encodings(old: State | None, new: State | None) -> tuple[int, set[str]]:
    """Encodings that did not exist before, and the agents of the domain when any changed."""
    if new is None:
        return 0, {agent.name for agent in old.plain.agents} if old else set()
    agents = {agent.name for agent in new.plain.agents}
    rules_before = _rules(old.plain) if old else {}
    subjects_before = _subjects(old.plain) if old else {}
    rules, subjects = _rules(new.plain), _subjects(new.plain)
    made = sum(count for key, count in rules.items() if key not in rules_before) * len(agents)
    made += sum(len(homes) for key, homes in subjects.items() if subjects_before.get(key) != homes)
    same = old is not None and _held(old.plain) == _held(new.plain)
    return made, set() if same else agents


def _rules(plain: PlainDomain) -> dict[Any, int]:
    """One for each conjunction; a join is one for each value that somebody has."""
    found: dict[Any, int] = {}
    for policy in plain.policies:
        for conjunction in policy.conjunctions:
            names = [join.left for join in conjunction.joins]
            known = {
                tuple(repr(values[name]) for name in names)
                for subject in plain.subjects
                for values in subject.variants
                if all(name in values for name in names)
            }
            key = (policy.action, policy.type, policy.attributes, repr(conjunction))
            for values in known or {()}:
                found[(key, values)] = 1
    return found


def _subjects(plain: PlainDomain) -> dict[Any, tuple[str, ...]]:
    return {
        (subject.handle, repr(sorted(values.items(), key=repr))): tuple(
            sorted([*subject.homes.values(), *subject.seconds.values()])
        )
        for subject in plain.subjects
        for values in subject.variants
    }


def _held(plain: PlainDomain) -> tuple[Any, ...]:
    """Everything that bundles are made of, but the revision."""
    return (
        plain.types,
        plain.policies,
        plain.subjects,
        plain.agents,
        plain.wraps,
        plain.splits,
        plain.lease_seconds,
        plain.decisions,
    )
