"""Charm's AC17 on access trees: what goes through, and what never reaches Charm's parser."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

from policyengine.abe import cpabe, fame
from policyengine.abe.charm_group import GT, pair
from policyengine.abe.charm_policy import (
    Program,
    TreePrograms,
    attribute_of,
    element_name,
    program_names,
    span_rows,
    uses,
)
from policyengine.abe.group import GT as POINT
from policyengine.abe.shares import plan, select
from policyengine.attributes import Element, Gate, Leaf, Node, parse
from policyengine.attributes.types import AttributeType
from policyengine.errors import DecryptionError, InputError
from policyengine.primitives import SYSTEM_RANDOM, SeededRandom

A, B, C, D = (Leaf(Element(name, "1")) for name in "ABCD")
SCHEMA = {"zone": AttributeType("string"), "level": AttributeType("int", 0, 9)}


def both(*terms: Node) -> Gate:
    return Gate(len(terms), terms)


def either(*terms: Node) -> Gate:
    return Gate(1, terms)


def names_of(*leaves: Leaf) -> list[str]:
    return [element_name(leaf.element, use) for leaf in leaves for use in range(2)]


TREES = [
    (A, [{A}], [{B}, set()]),
    (both(A, B), [{A, B}, {A, B, C}], [{A}, {B}]),
    (both(A, B, C, D), [{A, B, C, D}], [{A, B, C}, {B, C, D}]),
    (either(both(A, B), both(C, D)), [{A, B}, {C, D}], [{A, C}, {B, D}]),
    (both(either(A, B), either(C, both(A, D))), [{B, C}, {A, D}], [{A}, {B, D}, {C, D}]),
]


@pytest.mark.parametrize(("tree", "opening", "not_opening"), TREES)
def test_charm_opens_what_charm_encrypts(
    tree: Node, opening: list[set[Leaf]], not_opening: list[set[Leaf]], capsys: Any
) -> None:
    scheme = fame.charm_scheme(SYSTEM_RANDOM)
    pk, msk = scheme.setup()
    message = scheme.group.random(GT)
    ciphertext = scheme.encrypt(pk, message, tree)
    for had in opening:
        key = scheme.keygen(pk, msk, names_of(*had))
        assert scheme.decrypt(pk, ciphertext, key) == message
    for had in not_opening:
        key = scheme.keygen(pk, msk, names_of(*had))
        with pytest.raises(DecryptionError):
            scheme.decrypt(pk, ciphertext, key)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("tree", "opening", "not_opening"), TREES)
def test_charm_and_the_product_open_each_other(
    tree: Node, opening: list[set[Leaf]], not_opening: list[set[Leaf]]
) -> None:
    scheme = fame.charm_scheme(SYSTEM_RANDOM)
    pk, msk = scheme.setup()
    key = scheme.keygen(pk, msk, names_of(*opening[0]))
    names = program_names(tree)

    # made by the product, opened by Charm: the mask times 1, divided by the mask
    mask, c_0, points = fame.encapsulate_points(
        [element.value for element in pk["h_A"]],
        [element.value for element in pk["e_gh_kA"]],
        names,
        span_rows(plan(tree))[0],
        SYSTEM_RANDOM,
    )
    element = type(scheme.group.random(GT))
    made = {
        "policy": scheme.util.createPolicy(tree),
        "C_0": [element(2, point) for point in c_0],
        "C": {
            name: [element(1, point) for point in row]
            for name, row in zip(names, points, strict=True)
        },
        "Cp": element(3, mask),
    }
    assert scheme.decrypt(pk, made, key).value.is_one()

    # made by Charm of the neutral message, opened by the product
    made = scheme.encrypt(pk, element(3, POINT()), tree)
    weighted = select(plan(tree), [name in key["K"] for name in names])
    assert weighted is not None
    chosen = [
        (
            weight,
            [one.value for one in key["K"][names[number]]],
            [one.value for one in made["C"][names[number]]],
        )
        for number, weight in weighted
    ]
    opened = fame.recover(
        [one.value for one in key["K_0"]],
        [one.value for one in key["Kp"]],
        [one.value for one in made["C_0"]],
        chosen,
    )
    assert opened == made["Cp"].value


class Stripping(TreePrograms):
    """Names repeated elements alike, as Charm does."""

    def strip_index(self, name: str) -> str:
        return name.partition("N")[0]


def _attack(scheme: Any) -> bool:
    """Open `A and (A or B)` with B alone: rows A - A + 2 B add up to (1, 0)."""
    pk, msk = scheme.setup()
    strip = scheme.util.strip_index
    key = scheme.keygen(pk, msk, [strip(element_name(B.element, 0))])
    message = scheme.group.random(GT)
    ciphertext = scheme.encrypt(pk, message, both(A, either(A, B)))
    first, second, third = ciphertext["C"].values()
    (of_key,) = key["K"].values()
    over = under = 1
    for place in range(3):
        row = first[place] / second[place] * third[place] ** 2
        over *= pair(key["Kp"][place] * of_key[place] ** 2, ciphertext["C_0"][place])
        under *= pair(row, key["K_0"][place])
    return bool(ciphertext["Cp"] * under / over == message)


def test_a_repeated_element_would_open_if_both_rows_hashed_alike() -> None:
    scheme = fame.charm_scheme(SYSTEM_RANDOM)
    assert not _attack(scheme)
    scheme.util = Stripping(scheme.group)
    assert _attack(scheme)


@pytest.mark.parametrize(
    "text",
    ["role=admin and level=9", "2 of (A,B,C)", "A and B", b"A", None, 3, ["A"], ("A", "B"), {}],
)
def test_no_text_goes_through(text: object) -> None:
    scheme = fame.charm_scheme(SYSTEM_RANDOM)
    pk, _ = scheme.setup()
    with pytest.raises(InputError) as caught:
        scheme.encrypt(pk, scheme.group.random(GT), text)
    assert caught.value.kind == "invalid"


def test_charms_parser_is_never_run() -> None:
    ran: set[str] = set()

    def watch(frame: FrameType, event: str, argument: object) -> None:
        ran.add(frame.f_code.co_filename)

    expression = parse('zone == "a" && (level > 2 || has(zone))', SCHEMA)
    fame.charm_scheme(SYSTEM_RANDOM)  # loading Charm defines its parser, which is not running it
    sys.setprofile(watch)
    try:
        opened = cpabe.cpabe_open(expression, {"zone": "a", "level": 3}, SCHEMA, b"text")
    finally:
        sys.setprofile(None)
    assert opened == b"text"
    assert any(name.endswith("ac17.py") for name in ran)
    assert not [name for name in ran if "policytree" in name or "pyparsing" in name]


def test_what_charm_cannot_do_is_refused() -> None:
    programs = TreePrograms(None)
    for tree in (Gate(2, (A, B, C)), both(A, Leaf(B.element, negated=True))):
        with pytest.raises(InputError) as caught:
            programs.createPolicy(tree)
        assert caught.value.kind == "unsupported"


def test_the_interface_that_schemes_use() -> None:
    programs = TreePrograms(None)
    program = programs.createPolicy(both(A, B))
    assert isinstance(program, Program)
    assert programs.createPolicy(program) is program
    names = programs.getAttributeList(program)
    assert programs.convert_policy_to_msp(program) == {names[0]: [0, 1], names[1]: [1, -1]}
    assert programs.len_longest_row == 2
    assert programs.getCoefficients(program) == dict.fromkeys(names, 1)
    rows = programs.prune(program, names)
    assert [row.getAttribute() for row in rows] == [row.getAttributeAndIndex() for row in rows]


def test_names_have_one_form_and_count_the_uses() -> None:
    tree = both(A, either(A, B), A)
    assert uses(tree) == [0, 1, 0, 2]
    names = program_names(tree)
    assert len(set(names)) == 4
    for name in names:
        assert name[0] == "E"
        assert set(name[1:65]) <= set("0123456789ABCDEF")
        assert name[65] == "N"


@pytest.mark.parametrize(
    ("label", "name"),
    [("zone==", "zone"), ("a0==", "a0"), ("a.b9^12", "a.b9"), ("zone$3", "zone"), ("a==", "a")],
)
def test_the_attribute_of_an_element(label: str, name: str) -> None:
    assert attribute_of(Element(label, "x")) == name


def test_the_same_random_bytes_give_the_same_keys() -> None:
    first, second = (fame.charm_scheme(SeededRandom(b"s")).setup() for _ in range(2))
    assert first == second
