"""The language: text, tree, normal form and tokens all mean the same."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policyengine.attributes import (
    And,
    AtLeast,
    AttributeType,
    Expression,
    Not,
    Or,
    Test,
    Value,
    conjunction_holds,
    conjunction_tokens,
    evaluate,
    names,
    normalise,
    parse,
    predicates_of,
    to_text,
    tokens_of,
)
from policyengine.attributes.literals import Literal
from policyengine.errors import DecodeError, InputError
from tests.support.policy_strategies import SCHEMA, expressions, values

THOROUGH = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SMALL = {
    "on": AttributeType("bool"),
    "unit": AttributeType("enum", values=("a", "b")),
    "n": AttributeType("int", 0, 2),
    "s": AttributeType("string"),
}
SMALL_DOMAIN: dict[str, list[Value | None]] = {
    "on": [None, False, True],
    "unit": [None, "a", "b"],
    "n": [None, 0, 1, 2],
    "s": [None, "x", "xy", "y"],
}


@THOROUGH
@given(expressions(), values())
def test_normal_form_is_the_naive_evaluation(
    expression: Expression, given_values: dict[str, Value]
) -> None:
    dnf = normalise(expression, SCHEMA)
    holds = any(conjunction_holds(conjunction, given_values) for conjunction in dnf)
    assert holds == evaluate(expression, given_values)


@THOROUGH
@given(expressions(), values())
def test_tokens_are_a_subset_exactly_when_a_conjunction_holds(
    expression: Expression, given_values: dict[str, Value]
) -> None:
    dnf = normalise(expression, SCHEMA)
    present = set(tokens_of(given_values, predicates_of(dnf, "")))
    for conjunction in dnf:
        inside = set(conjunction_tokens(conjunction)) <= present
        assert inside == conjunction_holds(conjunction, given_values)
    granted = any(set(conjunction_tokens(conjunction)) <= present for conjunction in dnf)
    assert granted == evaluate(expression, given_values)


@THOROUGH
@given(expressions(), values())
def test_text_reads_back_as_the_same_expression(
    expression: Expression, given_values: dict[str, Value]
) -> None:
    text = to_text(expression)
    again = parse(text, SCHEMA)
    assert evaluate(again, given_values) == evaluate(expression, given_values)
    assert to_text(again) == to_text(parse(to_text(again), SCHEMA))
    assert set(names(again)) <= set(names(expression))


@THOROUGH
@given(expressions())
def test_no_conjunction_absorbs_another_and_each_can_stand_alone(expression: Expression) -> None:
    sets = [set(conjunction) for conjunction in normalise(expression, SCHEMA)]
    for first, second in itertools.permutations(sets, 2):
        assert not first <= second


@THOROUGH
@given(expressions())
def test_predicates_travel_as_json(expression: Expression) -> None:
    for predicate in predicates_of(normalise(expression, SCHEMA), ""):
        assert Literal.from_json(predicate.to_json()) == predicate


def _small_leaf() -> st.SearchStrategy[Expression]:
    return st.sampled_from(
        [
            *(Test("on", "==", flag) for flag in (True, False)),
            Test("on", "!=", True),
            *(Test("unit", "==", letter) for letter in "ab"),
            Test("unit", "!=", "a"),
            Test("unit", "in", ("a", "b")),
            Test("n", "<", 1),
            Test("n", ">=", 2),
            Test("n", "!=", 1),
            Test("n", "in", (0, 2, 9)),
            Test("s", "startsWith", "x"),
            Test("s", "endsWith", "y"),
            *(Test(name, "has") for name in SMALL),
        ]
    )


def _small_combined(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    terms = st.lists(inner, min_size=1, max_size=3).map(tuple)
    return st.one_of(
        terms.map(And), terms.map(Or), inner.map(Not),
        terms.flatmap(lambda given_terms: st.integers(1, len(given_terms)).map(
            lambda count: AtLeast(count, given_terms))),
    )  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.recursive(_small_leaf(), _small_combined, max_leaves=7))
def test_normal_form_has_the_truth_table_of_the_expression(expression: Expression) -> None:
    dnf = normalise(expression, SMALL)
    for combination in itertools.product(*SMALL_DOMAIN.values()):
        state = {
            name: value
            for name, value in zip(SMALL_DOMAIN, combination, strict=True)
            if value is not None
        }
        table = any(conjunction_holds(conjunction, state) for conjunction in dnf)
        assert table == evaluate(expression, state), state


PIECES = "ab1.0 \"'!&|()[]=<>,\\-has in true atLeast_zone level😀\ud800"


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=PIECES, max_size=60))
def test_any_text_is_read_or_refused_with_a_position(text: str) -> None:
    problem: InputError | None = None
    try:
        expression = parse(text, SCHEMA, joins=True)
    except InputError as error:
        problem = error
    if problem is None:
        assert parse(to_text(expression), SCHEMA, joins=True) == expression
    else:
        assert problem.at is not None
        assert 0 <= problem.at <= len(text)
        assert problem.message


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["attribute", "op", "value", "x"]), inner, max_size=4)
        ),
        max_leaves=6,
    )
)
def test_no_json_breaks_the_reader_of_predicates(obj: object) -> None:
    try:
        predicate = Literal.from_json(obj)
    except DecodeError:
        return
    assert Literal.from_json(predicate.to_json()) == predicate


@pytest.mark.parametrize("count", [32, 64])
def test_the_promised_sizes_are_handled(count: int) -> None:
    schema = {f"a{number}": AttributeType("int") for number in range(32)}
    conjunctions = [
        " && ".join(f"a{(row + column) % 32} == {row}" for column in range(4))
        for row in range(count)
    ]
    expression = parse(" || ".join(f"({text})" for text in conjunctions), schema)
    assert len(normalise(expression, schema)) == count
