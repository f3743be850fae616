"""Random trees of event types in two domains: what is inherited, and what a change may break."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from adminapp.catalog import mapping, selectors, services
from adminapp.catalog.models import Attribute, AttributeKey, EventType
from adminapp.core.errors import Invalid
from adminapp.identity.models import Domain
from adminapp.policies.models import Policy
from policyengine.errors import InputError
from policyengine.events import EventTypes

pytestmark = pytest.mark.django_db
NAMES = ("A", "B", "C", "D", "E")
ATTRIBUTES = ("x", "y", "z")
TYPES: tuple[dict[str, Any], ...] = (
    {"type": "int", "min": 0, "max": 3},
    {"type": "int", "min": -1, "max": 4},
    {"type": "int"},
    {"type": "enum", "values": ["a", "b"]},
    {"type": "enum", "values": ["b", "c", "a"]},
    {"type": "string"},
)
VALUES = (-1, 0, 3, 4, 99, "a", "b", "c", "other")
SAFE = settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@contextmanager
def undone() -> Iterator[None]:
    """What happens inside never was."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


# -- what is inherited -----------------------------------------------------------------------

# Each type: the place of its parent among those before it (or none), whether the upper domain has
# it, whether the lower one does, and the attributes that it declares there.
declared = st.lists(st.sampled_from(ATTRIBUTES), unique=True)
plans = st.lists(
    st.tuples(st.integers(-1, 3), st.booleans(), st.booleans(), declared, declared),
    min_size=1,
    max_size=len(NAMES),
)


def plant(plan: list[Any]) -> tuple[Domain, Domain]:
    """Write the rows of a plan, past the services: any tree, not only one that they accept."""
    upper = Domain.objects.create(name="upper", title="Upper")
    lower = Domain.objects.create(name="lower", title="Lower", parent=upper)
    rows: dict[tuple[str, str], EventType] = {}
    for index, (above, in_upper, in_lower, up, low) in enumerate(plan):
        for domain, wanted, names in ((upper, in_upper, up), (lower, in_lower, low)):
            if not wanted:
                continue
            name = NAMES[above] if 0 <= above < index else ""
            parent = rows.get((domain.name, name)) or rows.get(("upper", name))
            row = EventType.objects.create(domain=domain, name=NAMES[index], parent=parent)
            rows[domain.name, row.name] = row
            for order, each in enumerate(names):
                Attribute.objects.create(
                    event_type=row, name=each, type={"type": "int"}, order=order
                )
    return upper, lower


def naive(name: str, domains: list[Domain]) -> dict[str, str]:
    """Attribute -> type that declares it, by asking the database again and again."""
    for domain in domains:
        row = EventType.objects.filter(domain=domain, name=name).first()
        if row is not None:
            above = naive(row.parent.name, domains) if row.parent else {}
            own = {each.name: name for each in Attribute.objects.filter(event_type=row)}
            return {**above, **own}
    return {}


@SAFE
@given(plans)
def test_what_is_inherited_is_what_a_naive_recursion_finds(plan: list[Any]) -> None:
    with undone():
        upper, lower = plant(plan)
        for domain, line in ((upper, [upper]), (lower, [lower, upper])):
            rows = selectors.domain_types(domain)
            known = {
                name for each in line for name in each.event_types.values_list("name", flat=True)
            }
            assert {row.name for row in rows} == known
            resolved = selectors.resolved_by_type(rows)
            engine = mapping.event_types(rows)
            for name in known:
                wanted = naive(name, line)
                found = {each.attribute.name: each.declared_by for each in resolved[name]}
                assert found == wanted
                assert {each.name for each in engine.attributes(name)} == set(wanted)


# -- what a change may break -----------------------------------------------------------------

Item = dict[str, Any]


def item(name: str) -> st.SearchStrategy[Item]:
    return st.builds(
        lambda kind, keys: {"name": name, "type": TYPES[kind], "keys": keys},
        st.integers(0, len(TYPES) - 1),
        st.sampled_from([[], ["k"], ["k", "l"]]),
    )


# A stands above B, and B above C; each declares an attribute of its own.
trees = st.tuples(*(item(name) for name in ATTRIBUTES))
held = st.lists(
    st.tuples(
        st.sampled_from(NAMES[:3]),
        st.none() | st.lists(st.sampled_from(ATTRIBUTES), unique=True),
        st.sampled_from([True, True, False]),
    ),
    min_size=1,
    max_size=3,
)


@st.composite
def changes(draw: st.DrawFn) -> tuple[Any, str, list[Item], str]:
    """A tree, the type that changes, what it declares from then on, and where it then stands."""
    tree = draw(trees)
    place = draw(st.integers(0, 2))
    own = tree[place]
    kept = draw(st.sampled_from(["same", "same", "wider", "other", "gone"]))
    now = {
        "same": [own],
        "wider": [{**own, "type": draw(st.sampled_from(TYPES))}],
        "other": [draw(item(own["name"]))],
        "gone": [],
    }[kept]
    more = draw(st.sampled_from([[], [{"name": "w", "type": {"type": "string"}}]]))
    parent = draw(st.sampled_from(["same", "same", "same", "none", "A"]))
    return tree, NAMES[place], [*now, *more], parent


def standing(domain: Domain, policies: list[Any]) -> list[Policy]:
    """Policies in force; those that let attributes through that nobody declares are left out."""
    types = selectors.engine_types(domain)
    made = []
    for number, (name, attributes, enabled) in enumerate(policies):
        below = {spec.name for each in types.subtree(name) for spec in types.attributes(each)}
        kept = None if attributes is None else [each for each in attributes if each in below]
        made.append(
            Policy.objects.create(
                domain=domain,
                name=f"p{number}",
                action="subscribe",
                event_type=EventType.objects.get(domain=domain, name=name),
                expression="true",
                attributes=kept,
                enabled=enabled,
            )
        )
    return made


def promised(policy: Policy, types: EventTypes) -> dict[tuple[str, str], Any]:
    """What whoever lives by a policy gets: type and attribute, the values taken, the keys."""
    found = {}
    for name in types.subtree(policy.event_type.name):
        for spec in types.attributes(name):
            if policy.attributes is None or spec.name in policy.attributes:
                taken = {value for value in VALUES if accepts(types, name, {spec.name: value})}
                found[name, spec.name] = (taken, frozenset(spec.keys))
    return found


def accepts(types: EventTypes, name: str, values: Mapping[str, Any]) -> bool:
    try:
        types.validate(name, values)
    except InputError:
        return False
    return True


@settings(SAFE, max_examples=40)
@given(changes(), held)
def test_no_accepted_change_breaks_a_policy_in_force(change: Any, held: list[Any]) -> None:
    before, target, wanted, parent = change
    with undone():
        domain = Domain.objects.create(name="solo", title="Solo")
        for key in ("k", "l"):
            AttributeKey.objects.create(domain=domain, name=key)
        above: EventType | None = None
        for name, own in zip(NAMES, before, strict=False):
            above = services.create_event_type(
                actor=None, domain=domain, name=name, parent=above, attributes=[own]
            )
        policies = standing(domain, held)
        types = selectors.engine_types(domain)
        was = {policy.pk: promised(policy, types) for policy in policies if policy.enabled}
        data: dict[str, Any] = {}
        if parent != "same":
            data["parent"] = None if parent == "none" else EventType.objects.get(name="A")
        try:
            services.update_event_type(
                actor=None,
                event_type=EventType.objects.get(domain=domain, name=target),
                data=data,
                attributes=wanted,
            )
        except Invalid:
            event("refused")
            return
        event("accepted" if any(was.values()) else "accepted, nothing in force")
        types = selectors.engine_types(domain)
        for policy in policies:
            now = promised(policy, types) if policy.pk in was else {}
            for place, (values, keys) in was.get(policy.pk, {}).items():
                assert place in now
                assert values <= now[place][0]
                assert not now[place][1] - keys
