"""Effective access and explanations agree with asking one by one, on random organisations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adminapp.identity.models import Domain
from adminapp.policies import reach
from adminapp.policies.explain import explain
from tests.support import organisations as plain
from tests.support.organisations import TYPES, Organisation, moments, organisations

SOME = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
pytestmark = pytest.mark.django_db
ASKED = [
    (action, kind, attribute)
    for action in ("subscribe", "publish")
    for kind, names in TYPES.items()
    for attribute in (None, *names)
]


@contextmanager
def stored(found: Organisation) -> Iterator[Domain]:
    """An organisation in the database, for a while."""
    with transaction.atomic():
        yield plain.store(found)
        transaction.set_rollback(True)


@SOME
@given(organisations(), moments)
def test_reach_agrees_with_asking_one_by_one(db: None, found: Organisation, at: datetime) -> None:
    with stored(found) as domain:
        state = reach.take(domain, at=at)
        listed = {
            (line.principal, line.action, line.type, attribute)
            for line in state.effective()
            for attribute in (None, *line.attributes)
        }
        for person in found.people:
            for asked in ASKED:
                expected = [
                    plain.permitted(found, person, asked, at, event)
                    for event in plain.events(asked[1])
                ]
                answers = [
                    state.permits(person.name, *asked, event) for event in plain.events(asked[1])
                ]
                assert answers == expected, (person, asked)
                assert state.permits(person.name, *asked) == any(expected)
                assert ((person.name, *asked) in listed) == any(expected)
                assert (person.name in state.who(*asked)) == any(expected)
        alone = [
            line
            for person in domain.principals.order_by("name")
            for line in reach.take(domain, at=at, only=[person.pk]).effective(person.name)
        ]
        assert alone == list(state.effective())


@SOME
@given(organisations(), moments, st.sampled_from(ASKED), st.integers(0, 11))
def test_explanations_agree_with_asking_one_by_one(
    db: None, found: Organisation, at: datetime, asked: tuple[str, str, str | None], which: int
) -> None:
    every = list(plain.events(asked[1]))
    event = every[which % len(every)]
    with stored(found) as domain:
        rows = {row.name: row for row in domain.principals.select_related("domain")}
        for person in found.people:
            expected = [plain.permitted(found, person, asked, at, each) for each in every]
            answer = explain(domain, rows[person.name], *asked, at=at)
            assert answer.allowed == any(expected), person
            assert answer.allowed == (not answer.missing)
            assert all(expected) or not answer.allowed or answer.condition
            one = explain(domain, rows[person.name], *asked, at=at, event=event)
            assert one.allowed == expected[every.index(event)], person


@SOME
@given(organisations(), moments, st.sampled_from(ASKED), st.integers(0, 11))
def test_what_is_missing_suffices(
    db: None, found: Organisation, at: datetime, asked: tuple[str, str, str | None], which: int
) -> None:
    every = list(plain.events(asked[1]))
    event = every[which % len(every)]
    with stored(found) as domain:
        rows = {row.name: row for row in domain.principals.select_related("domain")}
        for person in found.people:
            for given_event in (None, event):
                answer = explain(domain, rows[person.name], *asked, at=at, event=given_event)
                for alternative in answer.alternatives:
                    if alternative.sufficient:
                        steps = [s for missing in alternative.missing for s in missing.steps]
                        then, who, seen = plain.after(found, person, steps, given_event)
                        events = every if seen is None else [seen]
                        assert any(plain.permitted(then, who, asked, at, each) for each in events)
