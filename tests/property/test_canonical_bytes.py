"""Canonical bytes: one value, one text; fields and base64 without ambiguity."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from policyengine.bundles import Delivery, PublicationPart, RoutedPart
from policyengine.errors import DecodeError
from policyengine.primitives import b64, dumps, loads, pack, unb64, unpack
from policyengine.primitives.canonical import unpack_all
from tests.support import bundle_samples as samples

quick = settings(deadline=None, max_examples=300)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXT
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(TEXT, inner, max_size=5)),
    max_leaves=20,
)


def typed(value: object) -> object:
    """Tell 1, 1.0 and True apart, which Python takes for equal."""
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    return type(value).__name__, repr(value)


@given(VALUES)
@quick
def test_a_value_survives_and_has_one_text(value):
    text = dumps(value)
    assert typed(loads(text)) == typed(value)
    assert dumps(loads(text)) == text


@given(st.dictionaries(TEXT, SCALARS, max_size=8))
@quick
def test_the_order_of_members_does_not_matter(value):
    assert dumps(dict(reversed(value.items()))) == dumps(value)


@given(VALUES, st.sampled_from([{"indent": 1}, {"separators": (", ", ": ")}, {}]))
@quick
def test_a_text_in_another_layout_is_refused(value, layout):
    other = json.dumps(value, **layout).encode()
    if other == dumps(value):
        assert typed(loads(other)) == typed(value)
        return
    try:
        loads(other)
    except DecodeError:
        return
    raise AssertionError(other)


@given(st.binary(max_size=60))
@quick
def test_bytes_are_canonical_or_refused(data):
    try:
        value = loads(data)
    except DecodeError:
        return
    assert dumps(value) == data


@given(st.lists(st.binary(max_size=20), max_size=8), st.lists(st.binary(max_size=20), max_size=8))
@quick
def test_fields_are_unambiguous(first, second):
    assert unpack(pack(*first), len(first)) == tuple(first)
    assert (pack(*first) == pack(*second)) == (first == second)


@given(st.binary(max_size=60))
@quick
def test_bytes_are_fields_or_refused(data):
    try:
        fields = unpack_all(data, limit=20)
    except DecodeError:
        return
    assert pack(*fields) == data


@given(st.text(max_size=20))
@quick
def test_a_text_is_the_one_base64_of_its_bytes_or_refused(text):
    try:
        data = unb64(text)
    except DecodeError:
        return
    assert b64(data) == text


@given(st.binary(max_size=50))
@quick
def test_base64_round_trip(data):
    assert unb64(b64(data)) == data


NAMES = st.text(
    st.characters(min_codepoint=32, exclude_characters="\x7f", exclude_categories=["Cs"]),
    min_size=1,
    max_size=30,
)
ATTRIBUTES = st.dictionaries(
    NAMES,
    st.one_of(
        TEXT,
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.booleans(),
    ),
    max_size=6,
)


@given(ATTRIBUTES, st.lists(st.binary(min_size=16, max_size=16), max_size=4))
@quick
def test_an_events_values_survive_exactly(attributes, tags):
    part = samples.publication(attributes=attributes, tags=tags)
    again = PublicationPart.from_json(loads(dumps(part.to_json())))
    assert again == part
    assert typed(dict(again.attributes)) == typed(attributes)
    delivered = samples.delivery(attributes=attributes, withheld={})
    assert Delivery.from_json(loads(dumps(delivered.to_json()))) == delivered
    hop = samples.routed(clear=attributes, sealed={})
    assert RoutedPart.from_json(loads(dumps(hop.to_json()))) == hop
