"""What a change gives and takes agrees with asking everybody before and after it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import datetime

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adminapp.identity.models import Domain
from adminapp.policies import reach
from adminapp.policies.access import gained, gained_count, slots
from adminapp.policies.models import Policy
from adminapp.policies.reach import Reach
from tests.support import organisations as plain
from tests.support.organisations import TYPES, Organisation, moments, organisations

SOME = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
pytestmark = pytest.mark.django_db


@st.composite
def changes(draw: st.DrawFn, *, event: bool) -> tuple[Organisation, Organisation]:
    """An organisation before and after: some people and policies stay, others come and go."""
    before = draw(organisations(event=event))
    people = {person.name: person for person in before.people if draw(st.booleans())}
    for number in draw(st.lists(st.integers(0, 4), max_size=2, unique=True)):
        people[f"P{number}"] = draw(plain.people(number))
    rules = {rule.name: rule for rule in before.rules if draw(st.integers(0, 3))}
    if draw(st.booleans()):
        rules["rule 9"] = draw(plain.rules(9, event=event))
    after = replace(before, people=tuple(people.values()), rules=tuple(rules.values()))
    return before, after


def both(before: Organisation, after: Organisation, at: datetime) -> tuple[Reach, Reach]:
    """Everything that everybody may do before and after; who stays in both is the same row."""
    with transaction.atomic():
        domain = plain.store(before)
        first = reach.take(domain, at=at)
        _turn(domain, after)
        second = reach.take(domain, at=at)
        transaction.set_rollback(True)
    return first, second


def _turn(domain: Domain, after: Organisation) -> None:
    Policy.objects.filter(domain=domain).delete()
    plain.store_rules(domain, after.rules)
    named = {person.name: person for person in after.people}
    for row in domain.principals.exclude(name__in=named):
        row.delete()
    known = {row.name: row for row in domain.principals.all()}
    for name, person in named.items():
        if name in known:
            row = known[name]
            row.appointments.all().delete()
            row.attributes = dict(person.attributes)
            row.state = "active" if person.active else "revoked"
            row.save()
            plain.store_appointments(row, person)
        else:
            plain.store_person(domain, person)


def tuples(found: Organisation, at: datetime) -> set[tuple[str, str, str, str | None]]:
    return {
        (person.name, action, kind, attribute)
        for person in found.people
        for action in ("publish", "subscribe")
        for kind, names in TYPES.items()
        for attribute in (None, *names)
        if plain.permitted(found, person, (action, kind, attribute), at, {})
    }


def counted(extra: set[tuple[str, str, str, str | None]]) -> int:
    """Attributes; a type of which none is concerned counts once."""
    by_type: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for name, action, kind, attribute in extra:
        by_type[name, action, kind] |= {attribute} if attribute else set()
    return sum(len(names) or 1 for names in by_type.values())


@SOME
@given(changes(event=False), moments)
def test_counts_are_exact(db: None, pair: tuple[Organisation, Organisation], at: datetime) -> None:
    found = reach.compare(*both(*pair, at))
    old, new = (tuples(each, at) for each in pair)
    assert (found.gained, found.lost) == (counted(new - old), counted(old - new))
    listed = {
        (line.principal, line.action, line.type, attribute)
        for line in found.gains
        for attribute in line.attributes
    }
    assert listed == {each for each in new - old if each[3] is not None}


@SOME
@given(changes(event=True), moments, st.integers(0, 3))
def test_comparing_all_at_once_is_comparing_one_by_one(
    db: None, pair: tuple[Organisation, Organisation], at: datetime, limit: int
) -> None:
    before, after = both(*pair, at)
    found = reach.compare(before, after)
    rows = {pk for each in (before, after) for pk in each.crowd.pks}
    gains = losses = 0
    for pk in rows:
        old, new = (_slots(each, pk) for each in (before, after))
        gains += gained_count(gained(old, new))
        losses += gained_count(gained(new, old))
    assert (found.gained, found.lost) == (gains, losses)
    back = reach.compare(after, before)
    assert (back.gained, back.lost) == (losses, gains)
    short = reach.compare(before, after, limit=limit)
    assert (short.gained, short.lost) == (found.gained, found.lost)
    assert (short.gains, short.losses) == (found.gains[:limit], found.losses[:limit])


def _slots(state: Reach, pk: int) -> dict:
    if pk not in state.crowd.pks:
        return {}
    position = state.crowd.pks.index(pk)
    held = [
        index
        for index, row in enumerate(state.matrix)
        if row[position >> 3] >> (7 - (position & 7)) & 1
    ]
    return slots(state.holdings(held, position))
