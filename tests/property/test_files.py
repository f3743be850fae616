"""Random organisations: a file is applied, exported and planned, and always says the same."""

from __future__ import annotations

import string
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adminapp.changes import files
from adminapp.changes.yamlfiles import dump
from adminapp.identity import kinds
from adminapp.identity.models import Domain

pytestmark = pytest.mark.django_db

NAMES = st.text(string.ascii_lowercase, min_size=1, max_size=3)
TITLES = st.one_of(
    st.sampled_from(["", "NO", "yes", "1.5", "~", "a: b", "- x", "# c", "'q'", "ü ß 東京", "1e3"]),
    st.text(
        st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Cn", "Co", "Zl", "Zp")),
        max_size=20,
    ),
)
TYPES = st.sampled_from(
    [
        {"type": "string"},
        {"type": "bool"},
        {"type": "int", "min": 0, "max": 9},
        {"type": "enum", "values": ["x", "y"]},
    ]
)
Objects = list[tuple[str, str, dict[str, Any]]]


@st.composite
def organisations(draw: st.DrawFn) -> Objects:
    """Documents of one domain, or of a parent and a child."""
    found: Objects = []
    names = draw(st.lists(NAMES, min_size=1, max_size=2, unique=True))
    for index, name in enumerate(names):
        parent = names[0] if index else None
        found.append(("", "domain", {"name": name, "title": draw(TITLES) or "t", "parent": parent}))
        found += draw(_model(name, with_types=index == 0))
    return found


@st.composite
def _model(draw: st.DrawFn, domain: str, *, with_types: bool) -> Objects:
    found: Objects = []
    own = draw(st.dictionaries(NAMES, TYPES, max_size=2)) if with_types else {}
    found += [(domain, "subject-attribute", {"name": n, "type": t}) for n, t in own.items()]
    roles: list[str] = []
    for name in draw(st.lists(NAMES, max_size=3, unique=True)):
        rule: dict[str, Any] = {"appointments": ["given"]}
        if roles and draw(st.booleans()):
            rule["prerequisites"] = [draw(st.sampled_from(roles))]
        rules = [rule] if draw(st.booleans()) else []
        found.append((domain, "role", {"name": name, "title": draw(TITLES), "rules": rules}))
        roles.append(name)
    if not with_types:
        return found
    types: list[str] = []
    for name in draw(st.lists(NAMES.map(str.capitalize), max_size=3, unique=True)):
        parent = draw(st.sampled_from(types)) if types and draw(st.booleans()) else None
        # An attribute is named after its type, so that no name has two types in one tree.
        attributes = [{"name": f"of_{name}", "type": draw(TYPES)}] if draw(st.booleans()) else []
        document = {"name": name, "parent": parent, "title": draw(TITLES), "attributes": attributes}
        found.append((domain, "event-type", document))
        types.append(name)
    people = draw(st.lists(NAMES, max_size=3, unique=True))
    found += [(domain, "principal", {"name": name, "kind": "person"}) for name in people]
    if people and draw(st.booleans()):
        starts = "2026-01-01T00:00:00Z"
        document = {"principal": people[0], "name": "given", "starts": starts}
        found.append((domain, "appointment", document))
    if types and roles:
        expression = f'subject.role == "{draw(st.sampled_from(roles))}"'
        for name in draw(st.lists(NAMES, max_size=2, unique=True)):
            found.append(
                (
                    domain,
                    "policy",
                    {
                        "name": name,
                        "title": draw(TITLES),
                        "action": draw(st.sampled_from(["publish", "subscribe"])),
                        "event_type": draw(st.sampled_from(types)),
                        "expression": expression,
                        "enabled": draw(st.booleans()),
                    },
                )
            )
    return found


@contextmanager
def undone() -> Iterator[None]:
    """An instance that is as it was before."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def written(objects: Objects) -> bytes:
    whole = [
        (domain, kind, kinds.kind(kind).whole(None, document)) for domain, kind, document in objects
    ]
    return dump(whole).encode()


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(objects=organisations(), shuffle=st.randoms(use_true_random=False))
def test_files_say_the_same_wherever_they_are_applied(objects: Objects, shuffle: Any) -> None:
    with undone():
        shuffled = list(objects)
        shuffle.shuffle(shuffled)
        files.apply(actor=None, files=[("any.yaml", written(shuffled))])
        text = files.export(Domain.objects.all())
        plan = files.plan(actor=None, files=[("same.yaml", text.encode())], partial=False)
        assert (plan.changes, plan.problems) == ((), ())
        assert plan.unchanged == len(objects)
    with undone():
        files.apply(actor=None, files=[("text.yaml", text.encode())])
        assert files.export(Domain.objects.all()) == text
    assert not Domain.objects.exists()
