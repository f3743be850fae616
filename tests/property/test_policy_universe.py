"""Elements and access trees mean what the expressions mean; codes of numbers keep their order."""

from __future__ import annotations

import itertools

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policyengine.attributes import (
    ANY,
    NEVER,
    AttributeType,
    Expression,
    Gate,
    Leaf,
    Node,
    Value,
    access_tree,
    elements_of,
    evaluate,
    names,
    satisfied,
)
from policyengine.attributes.codes import NumberCode
from tests.support.policy_strategies import SCHEMA, domain_values, expressions

THOROUGH = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
CLOSED = {name: declared for name, declared in SCHEMA.items() if name != "free"}
TYPES = [
    AttributeType("int"),
    AttributeType("int", minimum=-5),
    AttributeType("int", -3, 12),
    AttributeType("int", 0, 12, 3),
    AttributeType("float"),
    AttributeType("float", -1, 3, 0.5),
    AttributeType("float", -1, 3),
]
NUMBERS = [-(10**40), -300, -6, -5, -4, -1, 0, 1, 2, 3, 4, 7, 8, 11, 12, 13, 255, 256, 10**40]
FLOATS = [-1e300, -1.5, -1.0, -0.75, -0.5, -1e-300, 0.0, 0.25, 0.5, 1.0, 2.5, 3.0, 3.5, 1e300]


def events(schema: dict[str, AttributeType]) -> st.SearchStrategy[dict[str, Value]]:
    return st.fixed_dictionaries({}, optional={name: domain_values(name) for name in schema})


@THOROUGH
@given(expressions(), events(SCHEMA))
def test_a_tree_over_prefixes_is_the_naive_evaluation(
    expression: Expression, values: dict[str, Value]
) -> None:
    tree = access_tree(expression, SCHEMA)
    assert satisfied(tree, elements_of(values, SCHEMA)) == evaluate(expression, values)


@THOROUGH
@given(expressions().filter(lambda tree: "free" not in names(tree)), events(CLOSED))
def test_a_tree_over_bits_is_the_naive_evaluation(
    expression: Expression, values: dict[str, Value]
) -> None:
    tree = access_tree(expression, CLOSED, ranges="bits")
    elements = elements_of(values, CLOSED, ranges="bits")
    assert satisfied(tree, elements) == evaluate(expression, values)


@THOROUGH
@given(expressions())
def test_trees_are_in_their_simplest_form(expression: Expression) -> None:
    def check(node: Node) -> None:
        if isinstance(node, Gate):
            assert 1 <= node.count <= len(node.terms) >= 2
            assert not {Leaf(ANY), Leaf(NEVER)} & set(node.terms)
            for term in node.terms:
                check(term)

    check(access_tree(expression, SCHEMA))


@THOROUGH
@given(events(SCHEMA), st.sampled_from(["dyadic", "bits"]))
def test_an_event_has_one_value_a_label(values: dict[str, Value], ranges: str) -> None:
    schema = SCHEMA if ranges == "dyadic" else CLOSED
    given_values = {name: value for name, value in values.items() if name in schema}
    elements = elements_of(given_values, schema, ranges="dyadic" if ranges == "dyadic" else "bits")
    assert len({element.label for element in elements}) == len(elements)
    assert len({element.token for element in elements}) == len(elements)
    assert list(elements) == sorted(elements)


def domain(declared: AttributeType) -> list[float]:
    pool = NUMBERS if declared.kind == "int" else FLOATS
    return [value for value in pool if declared.admits(value)]


@THOROUGH
@given(st.sampled_from(TYPES))
def test_codes_keep_the_order_and_none_begins_another(declared: AttributeType) -> None:
    code = NumberCode(declared)
    coded = [code.encode(value) for value in domain(declared)]
    assert coded == sorted(coded)
    for one, other in itertools.permutations(coded, 2):
        assert not other.startswith(one)
    assert code.width is None or {len(one) for one in coded} == {code.width}


@st.composite
def bounds(draw: st.DrawFn) -> tuple[AttributeType, float | None, float | None]:
    declared = draw(st.sampled_from(TYPES))
    pool = st.none() | st.sampled_from(NUMBERS if declared.kind == "int" else FLOATS)
    return declared, draw(pool), draw(pool)


@settings(max_examples=500, deadline=None)
@given(bounds(), st.booleans(), st.booleans())
def test_a_cover_holds_exactly_what_lies_inside(
    bounds: tuple[AttributeType, float | None, float | None], low_open: bool, high_open: bool
) -> None:
    declared, low, high = bounds
    code = NumberCode(declared)
    ranks = code.interval(low, low_open, high, high_open)
    prefixes = () if ranks is None else code.cover(*ranks)
    # one of the prefixes at most: no value is covered twice
    assert not any(one.startswith(other) for one, other in itertools.permutations(prefixes, 2))
    for value in domain(declared):
        above = low is None or value > low or (value == low and not low_open)
        below = high is None or value < high or (value == high and not high_open)
        covered = any(code.encode(value).startswith(prefix) for prefix in prefixes)
        assert covered == (above and below), (value, prefixes)
