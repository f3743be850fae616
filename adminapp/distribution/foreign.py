"""Guests in the bundles of a domain: principals of others, let in by agreements.

Everything about them stands under names of the agreement that they come through (`effect`), so
that rules and subjects of locals and of each agreement lie side by side in one bundle and none is
met by the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from adminapp.agreements import effect
from adminapp.agreements import selectors as agreements
from adminapp.agreements.effect import Opening
from adminapp.agreements.mapping import opening
from adminapp.distribution.plan import PlainPolicy, PlainSubject
from adminapp.distribution.serving import clients_of, homes_of, seconds_of
from adminapp.identity.models import Domain
from adminapp.roles import selectors as roles
from policyengine.attributes import Schema, Value
from policyengine.events import EventTypes
from policyengine.primitives.canonical import unb64

Variants = tuple[Mapping[str, Value], ...]


def policies(
    own: Sequence[PlainPolicy], openings: Sequence[Opening], types: EventTypes
) -> tuple[PlainPolicy, ...]:
    """A domain's policies as locals and guests are held to them.

    Where nobody is let in they stay as they are: a domain without agreements is encoded as ever.
    """
    if not openings:
        return tuple(own)
    kept = (_kept_local(policy) for policy in own)
    derived = (each for one in openings for policy in own for each in _derived(one, policy, types))
    return (*kept, *derived)


def _kept_local(policy: PlainPolicy) -> PlainPolicy:
    return replace(
        policy, conjunctions=tuple(effect.kept_local(each) for each in policy.conjunctions)
    )


def _derived(one: Opening, policy: PlainPolicy, types: EventTypes) -> Iterator[PlainPolicy]:
    found = effect.narrowed(
        one,
        action=policy.action,
        event_type=policy.type,
        attributes=policy.attributes,
        types=types,
    )
    conjunctions = tuple(effect.enclosed(one, each) for each in policy.conjunctions)
    for number, each in enumerate(found):
        # What an event is lowered to, a guest must be let in to publish as well. And a place is
        # kept only for what the agreement names: of the rest guests need not know.
        yield replace(
            policy,
            suppresses=_named(one, policy, each.type, types),
            id=f"{policy.id}a{one.agreement}n{number}",
            type=each.type,
            attributes=each.attributes,
            conjunctions=conjunctions,
            agreement=one.agreement,
        )


def _named(one: Opening, policy: PlainPolicy, kind: str, types: EventTypes) -> tuple[str, ...]:
    """Of what a policy keeps the place of, what the agreement opens of a type."""
    over = [
        ceiling.attributes
        for ceiling in one.ceilings
        if ceiling.action == policy.action
        and ceiling.type in types.names
        and types.is_a(kind, ceiling.type)
    ]
    return tuple(
        name
        for name in policy.suppresses
        if any(listed is None or name in listed for listed in over)
    )


def subjects(domain: Domain, schema: Schema, serving: set[str]) -> tuple[PlainSubject, ...]:
    """Everybody of other domains whom an agreement in force lets in, by handle."""
    found: list[PlainSubject] = []
    for consumer, openings in _by_consumer(domain):
        rows = list(clients_of(consumer))
        values = roles.subject_values_of(consumer, rows)
        for row in rows:
            variants = _variants(openings, [dict(each) for each in values[row.pk]], schema)
            if not variants:
                continue
            found.append(
                PlainSubject(
                    handle=row.handle,
                    kind=row.kind,
                    variants=variants,
                    homes=homes_of(row, serving),
                    seconds=seconds_of(row, serving),
                    sealing_key=unb64(row.sealing_key),
                    verify_key=unb64(row.verify_key),
                    agreements=frozenset(each.agreement for each in openings),
                )
            )
    return tuple(sorted(found, key=lambda subject: subject.handle))


def _by_consumer(domain: Domain) -> list[tuple[Domain, list[Opening]]]:
    consumers: dict[int, Domain] = {}
    found: dict[int, list[Opening]] = defaultdict(list)
    for row in agreements.in_force(domain):
        consumers[row.consumer_id] = row.consumer
        found[row.consumer_id].append(opening(row))
    return [(consumers[pk], openings) for pk, openings in sorted(found.items())]


def _variants(
    openings: Iterable[Opening], own: Iterable[Mapping[str, Value]], schema: Schema
) -> Variants:
    """What agents are told of a guest: of each way it acts at home, all that is passed on."""
    ways = list(openings)
    found = [
        {
            name: value
            for one in ways
            if (seen := effect.foreign_values(one, values, schema)) is not None
            for name, value in effect.enclosed_values(one, seen).items()
        }
        for values in own
    ]
    distinct = {tuple(sorted(each.items(), key=str)): each for each in found if each}
    return tuple(distinct[key] for key in sorted(distinct, key=str))
