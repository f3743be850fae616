"""Events: types, restriction, protection, splitting and reassembly."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyengine.attributes import AttributeType, Value
from policyengine.errors import DecryptionError, InputError
from policyengine.events import (
    AttributeSpec,
    EventTypes,
    Protected,
    TypeSpec,
    protect,
    restrict,
    reveal,
)
from policyengine.primitives.rand import SeededRandom
from policyengine.privacy import Complete, Reassembler, split
from policyengine.roles import RoleRule, active_roles

TEXT = AttributeType("string")
KEY_NAMES = ["police", "fire", "press"]
NAMES = st.sampled_from(["a", "b", "c", "d"])
SCALARS = st.one_of(
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=50),
)
QUICK = settings(max_examples=120, deadline=None)


@st.composite
def trees(draw: st.DrawFn) -> list[TypeSpec]:
    """A random tree of up to six types, whether it keeps the rule of sub-types or not."""
    specs: list[TypeSpec] = []
    for number in range(draw(st.integers(1, 6))):
        above = draw(st.none() | st.integers(0, number - 1)) if number else None
        attributes = [
            AttributeSpec(
                name, TEXT, tuple(draw(st.lists(st.sampled_from(KEY_NAMES), unique=True)))
            )
            for name in draw(st.lists(NAMES, unique=True, max_size=3))
        ]
        parent = None if above is None else f"T{above}"
        specs.append(TypeSpec(f"T{number}", parent, tuple(attributes)))
    return draw(st.permutations(specs))


def naive_attributes(specs: list[TypeSpec], name: str) -> dict[str, set[str]] | None:
    """Attributes and keys of a type by walking up each time; None where the rule is broken."""
    by_name = {spec.name: spec for spec in specs}
    line: list[TypeSpec] = []
    current: str | None = name
    while current is not None:
        line.insert(0, by_name[current])
        current = by_name[current].parent
    keys: dict[str, set[str]] = {}
    for spec in line:
        for own in spec.attributes:
            before = keys.get(own.name)
            after = set(own.keys)
            if before is not None and (not after <= before or (before and not after)):
                return None
            keys[own.name] = after
    return keys


@QUICK
@given(trees())
def test_a_subtype_may_only_remove_keys(specs: list[TypeSpec]) -> None:
    expected = {spec.name: naive_attributes(specs, spec.name) for spec in specs}
    if None in expected.values():
        with pytest.raises(InputError) as caught:
            EventTypes(specs)
        assert caught.value.kind == "invalid"
        return
    types = EventTypes(specs)
    for name in types.names:
        found = {spec.name: set(spec.keys) for spec in types.attributes(name)}
        assert found == expected[name]
        assert types.schema(name) == dict.fromkeys(found, TEXT)
        assert set(types.subtree(name)) == {
            other for other in types.names if name == other or name in types.ancestors(other)
        }
        for above in types.ancestors(name):
            assert types.is_a(name, above)
            assert not types.is_a(above, name)
            for inherited in types.attributes(above):
                assert set(types.attribute(name, inherited.name).keys) <= set(inherited.keys)
    assert EventTypes(TypeSpec.from_json(spec.to_json()) for spec in specs).names == types.names


@QUICK
@given(st.lists(NAMES, unique=True), st.none() | st.sets(NAMES))
def test_restriction_never_adds(names: list[str], allowed: set[str] | None) -> None:
    result = restrict(names, allowed)
    removed = [item.attribute for item in result.removed]
    assert set(result.kept) <= set(names)
    assert sorted([*result.kept, *removed]) == sorted(names)
    assert [name for name in names if name in result.kept] == list(result.kept)
    if allowed is not None:
        assert set(result.kept) <= allowed
        assert not set(removed) & allowed
    else:
        assert removed == []
    assert restrict(result.kept, allowed).removed == ()


@QUICK
@given(
    st.dictionaries(NAMES, SCALARS),
    st.fixed_dictionaries(
        {name: st.lists(st.sampled_from(KEY_NAMES), unique=True) for name in "abcd"}
    ),
    st.sets(st.sampled_from(KEY_NAMES)),
    st.sets(st.sampled_from(KEY_NAMES)),
)
def test_any_subset_of_keys_opens_exactly_what_it_may(
    values: dict[str, Value], keys: dict[str, list[str]], held: set[str], reader: set[str]
) -> None:
    specs = [AttributeSpec(name, TEXT, tuple(names)) for name, names in keys.items()]
    ring = {name: (number + 3, bytes([number]) * 32) for number, name in enumerate(KEY_NAMES)}
    protected = protect(
        values,
        specs,
        {name: ring[name] for name in held},
        aad=b"event",
        random=SeededRandom(b"nonces"),
    )
    assert set(protected.clear) == {name for name in values if not keys[name]}
    assert set(protected.dropped) == {
        name for name in values if keys[name] and not set(keys[name]) & held
    }
    for name, entries in protected.sealed.items():
        assert set(entries) == set(keys[name]) & held
    travelled = Protected(protected.clear, json.loads(json.dumps(protected.sealed)))
    opened = reveal(
        travelled, {(name, ring[name][0]): ring[name][1] for name in reader}, aad=b"event"
    )
    readable = {name for name in values if not keys[name] or set(keys[name]) & held & reader}
    assert opened == {name: values[name] for name in readable}
    assert all(type(opened[name]) is type(values[name]) for name in readable)
    old = {(name, ring[name][0] - 1): ring[name][1] for name in reader}
    assert reveal(travelled, old, aad=b"event") == protected.clear
    if protected.sealed:
        every = {(name, epoch): key for name, (epoch, key) in ring.items()}
        with pytest.raises(DecryptionError):
            reveal(travelled, every, aad=b"another event")


@QUICK
@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers()),
    st.permutations("abcdef"),
    st.integers(0, 4),
)
def test_a_split_is_a_partition(values: dict[str, Value], order: list[str], groups: int) -> None:
    plan = [order[part::7][:1] for part in range(groups)]
    parts = split(values, plan)
    assert len(parts) == max(1, groups)
    joined: dict[str, Value] = {}
    for number, part in enumerate(parts):
        assert not set(part) & set(joined)
        joined.update(part)
        for name in part:
            assert name in plan[number] if number else True
    assert joined == values


@st.composite
def arrivals(draw: st.DrawFn) -> tuple[dict[str, int], list[tuple[str, int]]]:
    """Publications with their number of parts, and parts in any order, lost and doubled."""
    sizes = {f"p{number}": draw(st.integers(1, 4)) for number in range(draw(st.integers(1, 4)))}
    parts = [(name, part) for name, size in sizes.items() for part in range(size)]
    return sizes, draw(st.lists(st.sampled_from(parts), max_size=24))


@QUICK
@given(arrivals())
def test_parts_come_together_in_any_order_with_loss_and_doubles(
    case: tuple[dict[str, int], list[tuple[str, int]]],
) -> None:
    sizes, order = case
    reassembler = Reassembler(window=100)
    complete: dict[str, Complete] = {}
    seen: dict[str, set[int]] = {name: set() for name in sizes}
    for name, part in order:
        was_whole = len(seen[name]) == sizes[name]
        seen[name].add(part)
        result = reassembler.add(name, part, sizes[name], {f"a{part}": part}, meta=(name, part))
        now_whole = len(seen[name]) == sizes[name]
        assert (result is not None) == (now_whole and not was_whole)
        if result is not None:
            complete[name] = result
    for name, size in sizes.items():
        if len(seen[name]) == size:
            assert complete[name].values == {f"a{part}": part for part in range(size)}
            assert complete[name].meta == tuple((name, part) for part in range(size))
            assert reassembler.missing(name) == ()
        elif seen[name]:
            assert reassembler.missing(name) == tuple(sorted(set(range(size)) - seen[name]))
    assert len(reassembler) == sum(0 < len(seen[name]) < size for name, size in sizes.items())


ROLES = [f"r{number}" for number in range(5)]


@st.composite
def role_rules(draw: st.DrawFn) -> list[RoleRule]:
    """Rules whose prerequisites come before them, in any order."""
    rules = []
    for _ in range(draw(st.integers(0, 8))):
        role = draw(st.integers(0, 4))
        before = st.sampled_from(ROLES[:role]) if role else st.nothing()
        rules.append(
            RoleRule(
                ROLES[role],
                tuple(draw(st.lists(before, max_size=2))) if role else (),
                tuple(draw(st.lists(st.sampled_from("xyz"), max_size=2))),
                draw(st.sampled_from(["", "env.hour >= 9", "env.day"])),
            )
        )
    return draw(st.permutations(rules))


@QUICK
@given(role_rules(), st.sets(st.sampled_from("xyz")), st.integers(7, 11), st.none() | st.booleans())
def test_active_roles_are_the_least_fixpoint(
    rules: list[RoleRule], appointments: set[str], hour: int, day: bool | None
) -> None:
    environment: dict[str, Any] = {"hour": hour} | ({} if day is None else {"env.day": day})
    met = {"": True, "env.hour >= 9": hour >= 9, "env.day": day is True}
    expected: set[str] = set()
    while True:
        more = {
            rule.role
            for rule in rules
            if set(rule.prerequisites) <= expected
            and set(rule.appointments) <= appointments
            and met[rule.constraints]
        }
        if more <= expected:
            break
        expected |= more
    assert active_roles(rules, appointments, environment) == expected
