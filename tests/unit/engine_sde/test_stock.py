"""The stock quote example of paper 001, section 6, and the one-call form."""

from __future__ import annotations

import pytest

from policyengine.attributes import (
    AttributeType,
    Element,
    access_tree,
    elements_of,
    evaluate,
    leaves,
    parse,
)
from policyengine.errors import InputError
from policyengine.sde import (
    Matcher,
    UserEvent,
    UserFilter,
    encrypt_event,
    encrypt_filter,
    sde_match,
)
from tests.unit.engine_sde.samples import GROUPS, World

STOCK = {"Sym": AttributeType("string"), "Price": AttributeType("int", 0, 15)}
FILTER = 'Sym == "IBM" && Price > 10'


def test_price_11_is_the_papers_bag_of_bits() -> None:
    """Price = 1011 gives 1***, *0**, **1*, ***1 (section 6, step 2)."""
    found = elements_of({"Price": 11}, STOCK, ranges="bits")
    bits = [element for element in found if element.label.startswith("Price#")]
    assert bits == [Element(f"Price#{at}", bit) for at, bit in enumerate("1011")]


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("ranges", ["bits", "dyadic"])
def test_stock_quotes(group, ranges) -> None:
    world = World(group)
    tree = access_tree(parse(FILTER, STOCK), STOCK, ranges=ranges)
    asked = encrypt_filter(world.subscriber, tree, random=world.random)
    assert len(asked.filter.leaves) == len(list(leaves(tree)))
    matcher = Matcher(world.master.system)
    matcher.add("S", world.broker.filter(UserFilter.decode(asked.filter.encode())))
    for values, expected in (
        ({"Sym": "IBM", "Price": 11}, {"S"}),
        ({"Sym": "IBM", "Price": 15}, {"S"}),
        ({"Sym": "IBM", "Price": 10}, set()),
        ({"Sym": "IBM", "Price": 0}, set()),
        ({"Sym": "AMD", "Price": 11}, set()),
        ({"Price": 11}, set()),
        ({"Sym": "IBM"}, set()),
    ):
        event = encrypt_event(world.publisher, values, STOCK, ranges=ranges, random=world.random)
        received = UserEvent.decode(event.event.encode())
        assert matcher.match(world.broker.event(received)) == expected


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("ranges", ["bits", "dyadic"])
@pytest.mark.parametrize("price", [10, 11])
def test_one_call(group, ranges, price) -> None:
    values = {"Sym": "IBM", "Price": price}
    found = sde_match(parse(FILTER, STOCK), values, STOCK, group=group, ranges=ranges)
    assert found is (price == 11)


def test_one_call_refuses_what_the_scheme_cannot_say() -> None:
    free = {"n": AttributeType("int")}
    with pytest.raises(InputError) as caught:
        sde_match(parse("n > 3", free), {}, free, ranges="bits")
    assert caught.value.kind == "unsupported"


def test_thirty_two_attributes_sixty_four_conjunctions() -> None:
    """256 literals, on the curve; the last conjunction alone decides."""
    schema = {f"n{number}": AttributeType("int", 0, 15) for number in range(16)}
    schema |= {f"e{number}": AttributeType("enum", values=("a", "b")) for number in range(16)}
    values = {name: (7 if name[0] == "n" else "a") for name in schema}
    parts = [
        f'(n{at % 16} > {7 + at % 8} && e{at % 16} == "b" && n{(at + 5) % 16} < 9'
        f' && e{(at + 3) % 16} != "b")'
        for at in range(63)
    ]
    text = " || ".join([*parts, '(n0 == 7 && e0 == "a" && n1 < 9 && e1 == "a")'])
    expression = parse(text, schema)
    assert evaluate(expression, values)
    assert sde_match(expression, values, schema)
    assert not sde_match(expression, values | {"n0": 6}, schema)
