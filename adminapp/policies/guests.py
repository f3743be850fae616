"""Principals of other domains as this one's policies see them, and what is open to them.

Each agreement stands alone: who comes through two of them has what the one and what the other
opens, and nothing that would need both (`agreements.effect`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from adminapp.agreements import mapping
from adminapp.agreements import selectors as agreements
from adminapp.agreements.effect import DOMAIN, Opening
from adminapp.catalog.mapping import SUBJECT
from adminapp.identity.models import Domain
from adminapp.policies import columns, crowd
from adminapp.policies.access import Rule
from adminapp.policies.columns import Columns
from adminapp.policies.crowd import Crowd
from adminapp.roles.mapping import role_attribute
from policyengine.attributes import Literal, Schema
from policyengine.events import EventTypes


def gather(
    domain: Domain, schema: Schema, *, at: datetime, only: Sequence[int] | None = None
) -> list[tuple[Opening, Crowd]]:
    """Everybody whom agreements let in at a moment, an agreement after the other.

    Args:
        schema: types of this domain's `subject.*`.
        only: primary keys of those that matter; all by default.
    """
    known: dict[int, Crowd] = {}
    found = []
    rows = [(row, mapping.opening(row)) for row in agreements.in_force(domain, at=at)]
    wanted = {each.role for _, opening in rows for each in opening.roles}
    for row, opening in rows:
        people = known.get(row.consumer_id)
        if people is None:
            people = known[row.consumer_id] = crowd.gather(
                row.consumer, roles=wanted, at=at, only=only
            )
        found.append((opening, seen(people, opening, schema)))
    return found


def seen(people: Crowd, opening: Opening, schema: Schema) -> Crowd:
    """What is passed on of them: mapped roles, some attributes, and whose they are.

    Who has none of the mapped roles is nobody here.
    """
    count = len(people.owners)
    values = Columns([], "", people.owners)
    present = columns.none(count)
    for mapped in opening.roles:
        held = people.values.mask(Literal(role_attribute(mapped.role), "==", True))
        present = present | held
        values.join(role_attribute(mapped.known_as), held)
    for name in opening.subject_attributes:
        full = f"{SUBJECT}{name}"
        if full in schema:
            values.put(full, people.values.column(full).fitting(schema[full], full))
    values.put(DOMAIN, columns.constant(opening.consumer, count))
    return replace(people, values=values, present=present & people.present)


def rules(opening: Opening, own: Iterable[Rule], types: EventTypes) -> list[Rule]:
    """What is left of policies under what an agreement opens."""
    found = []
    for rule in own:
        ceilings = [each for each in opening.ceilings if each.action == rule.action]
        left: dict[str, tuple[str, ...]] = {}
        for name, attributes in rule.types.items():
            above = [c for c in ceilings if c.type in types.names and types.is_a(name, c.type)]
            if above:
                left[name] = tuple(
                    each
                    for each in attributes
                    if any(c.attributes is None or each in c.attributes for c in above)
                )
        if left:
            found.append(replace(rule, types=left))
    return found


def consumers(domain: Domain, at: datetime) -> list[Domain]:
    """The domains whose principals are let in at a moment."""
    return [row.consumer for row in agreements.in_force(domain, at=at)]
