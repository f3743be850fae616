"""Encrypted matching against the plain evaluation, on random policies and events."""

from __future__ import annotations

from hypothesis import given, note, settings
from hypothesis import strategies as st

from policyengine.attributes import (
    AttributeType,
    access_tree,
    elements_of,
    evaluate,
    leaves,
    satisfied,
)
from policyengine.primitives import SeededRandom
from policyengine.sde import Matcher, encrypt_filter, matches, sde_match
from policyengine.sde.shape import Plan, check_shape, shape_of, shuffled
from tests.support.policy_strategies import SCHEMA, described, expressions, values
from tests.unit.engine_sde.samples import World

BOUNDED = {**SCHEMA, "free": AttributeType("int", -(10**30), 10**30)}  # bits need limits


@given(expressions(), values())
@settings(max_examples=60, deadline=None)
def test_curve_agrees_with_evaluation(expression, given_values) -> None:
    note(described(expression, given_values))
    expected = evaluate(expression, given_values)
    assert sde_match(expression, given_values, SCHEMA) is expected


@given(expressions(6), values())
@settings(max_examples=30, deadline=None)
def test_bag_of_bits_agrees_with_evaluation(expression, given_values) -> None:
    note(described(expression, given_values))
    expected = evaluate(expression, given_values)
    assert sde_match(expression, given_values, BOUNDED, ranges="bits") is expected


@given(expressions(4), values())
@settings(max_examples=6, deadline=None)
def test_residues_agree_with_evaluation(expression, given_values) -> None:
    note(described(expression, given_values))
    expected = evaluate(expression, given_values)
    assert sde_match(expression, given_values, SCHEMA, group="zp1024") is expected


@given(st.lists(expressions(4), min_size=1, max_size=5), st.lists(values(), max_size=3), st.data())
@settings(max_examples=25, deadline=None)
def test_memory_of_any_size_agrees_with_none(every, events, data) -> None:
    world = World()
    filters = {f"f{at}": world.filter(one, SCHEMA) for at, one in enumerate(every)}
    memory = data.draw(st.sampled_from([0, 5, 60, 100_000]))
    matcher = Matcher(world.master.system, memory=memory)
    there: set[str] = set()
    for given_values in events * 2:
        name = data.draw(st.sampled_from(sorted(filters)))
        if name in there and data.draw(st.booleans()):
            matcher.remove(name)
            there.discard(name)
        else:
            matcher.add(name, filters[name])
            there.add(name)
        event = world.event(given_values, SCHEMA)
        expected = {
            name for name in there if evaluate(every[int(name.removeprefix("f"))], given_values)
        }
        assert {name for name in there if matches(filters[name], event)} == expected
        assert matcher.match(event) == expected
        assert matcher.remembered <= memory


@given(expressions(), values(), st.binary(min_size=1, max_size=8))
@settings(max_examples=80, deadline=None)
def test_shuffled_plans_agree_with_evaluation(expression, given_values, seed) -> None:
    """Without encryption: the gates alone, and never a tree that holds for nothing at all."""
    tree = shuffled(access_tree(expression, SCHEMA), SeededRandom(seed))
    elements = elements_of(given_values, SCHEMA)
    assert satisfied(tree, elements) is evaluate(expression, given_values)
    shape = shape_of(tree)
    check_shape(shape)
    plan, there = Plan.of(shape), set(elements)
    numbered = {at for at, leaf in enumerate(leaves(tree)) if leaf.element in there}
    assert plan.holds(numbered.__contains__) is evaluate(expression, given_values)
    assert plan.least > 0
    assert not plan.holds(lambda _: False)


@given(expressions(3))
@settings(max_examples=20, deadline=None)
def test_equal_filters_never_look_alike(expression) -> None:
    world = World()
    tree = access_tree(expression, SCHEMA)
    first, second = (encrypt_filter(world.subscriber, tree, random=world.random) for _ in range(2))
    assert not set(first.filter.leaves) & set(second.filter.leaves)
    assert sorted(first.filter.shape) == sorted(second.filter.shape)
