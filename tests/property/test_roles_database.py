"""Random organisations in the database against the engine's sessions."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adminapp.core.errors import Invalid
from adminapp.identity.models import Domain, Principal
from adminapp.roles import selectors, services, standing
from adminapp.roles.models import Appointment, RoleSession
from policyengine.roles import Atom, RolePolicy
from tests.property.test_roles_crowds import ROLES, everything, facts, rules

PEOPLE = ("Ann", "Bob")
QUICK = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
HELD = st.lists(st.lists(facts(), max_size=3), min_size=len(PEOPLE), max_size=len(PEOPLE))


def organisation(documents: list[Any], people: list[list[Atom]]) -> Domain | None:
    """A domain with these rules and appointments; None where the rules do not fit together."""
    domain = Domain.objects.create(name="police", title="Police")
    by_role: dict[str, list[Any]] = {}
    for document in documents:
        by_role.setdefault(document["role"].partition("(")[0], []).append(document)
    try:
        for name in sorted(ROLES):  # rules need earlier roles only
            services.create_role(
                actor=None,
                domain=domain,
                name=name,
                parameters=[f"p{number}" for number in range(ROLES[name])],
                rules=by_role.get(name, []),
            )
    except Invalid:
        return None
    for name, atoms in zip(PEOPLE, people, strict=True):
        principal = Principal.objects.create(domain=domain, name=name, kind="person")
        for atom in atoms:
            services.appoint(actor=None, principal=principal, name=atom.name, parameters=atom.terms)
    return domain


@pytest.mark.django_db
@QUICK
@given(st.lists(rules(), max_size=6), HELD)
def test_what_principals_have_is_what_a_session_activates(
    documents: list[Any], people: list[list[Atom]]
) -> None:
    with transaction.atomic():
        domain = organisation(documents, people)
        if domain is not None:
            _compare(domain, documents, people)
        transaction.set_rollback(True)


def _compare(domain: Domain, documents: list[Any], people: list[list[Atom]]) -> None:
    now = timezone.now()
    around = standing.Surroundings.of(domain, now)
    policy = RolePolicy.from_json({"rules": documents})
    columns = selectors.activations(domain, at=now).variants()
    for principal, atoms in zip(domain.principals.order_by("name"), people, strict=True):
        live = everything(policy, atoms, around.environment)
        found = standing.active_atoms(principal, at=now)
        assert sorted(atom.text for atom in found) == list(live.active)
        # every variant holds one activation of each role, and together they hold all of them
        parts = set()
        for variant in columns[principal.pk]:
            for name in (n for n, value in variant.items() if value is True):
                role = name.rpartition(".")[2]
                terms = tuple(variant[f"{name}.p{number}"] for number in range(ROLES[role]))
                parts.add((role, terms))
        assert parts == {(atom.name, tuple(str(term) for term in atom.terms)) for atom in found}
        for atom in found:
            assert selectors.explain_role(principal, atom.text, now).active
        for name in set(ROLES) - {atom.name for atom in found}:
            explained = selectors.explain_role(principal, name, now)
            assert not explained.active
            assert explained.steps or explained.rule is None


@pytest.mark.django_db
@QUICK
@given(st.lists(rules(), min_size=1, max_size=6), HELD, st.data())
def test_no_role_of_a_session_stands_without_support(
    documents: list[Any], people: list[list[Atom]], data: st.DataObject
) -> None:
    with transaction.atomic():
        domain = organisation(documents, people)
        if domain is not None:
            _take_away(domain, data)
        transaction.set_rollback(True)


def _take_away(domain: Domain, data: st.DataObject) -> None:
    sessions = [
        services.open_session(actor=None, principal=principal)
        for principal in domain.principals.all()
    ]
    rows = list(Appointment.objects.filter(principal__domain=domain))
    for row in data.draw(st.lists(st.sampled_from(rows), unique=True)) if rows else ():
        services.end_appointment(actor=None, appointment=row)
    for session in sessions:
        _supported(session)


def _supported(session: RoleSession) -> None:
    active = {each.atom: each for each in session.roles.filter(ended__isnull=True)}
    held = {
        Atom(row.name, tuple(row.parameters)).text
        for row in Appointment.objects.filter(principal=session.principal).active()
    }
    for each in active.values():
        for condition in each.grounds["membership"]:
            if condition["kind"] == "role":
                assert condition["text"] in active
            elif condition["kind"] == "appointment":
                assert condition["text"] in held
    for each in session.roles.filter(ended__isnull=False):
        assert each.chain
