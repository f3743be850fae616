"""Reading and writing roles and appointments."""

from __future__ import annotations

import pytest

from policyengine.errors import InputError
from policyengine.roles import MAX_ATOM, MAX_PARAMETERS, Atom, Variable, ground_atom, read_atom
from policyengine.roles.terms import order

X, Y = Variable("x"), Variable("y")


@pytest.mark.parametrize(
    ("text", "atom"),
    [
        ("guest", Atom("guest")),
        ("guest()", Atom("guest")),
        (" guest ( ) ", Atom("guest")),
        ("officer(x)", Atom("officer", (X,))),
        ("officer(7)", Atom("officer", (7,))),
        ("treating-doctor(x, y)", Atom("treating-doctor", (X, Y))),
        ("sergeant(Cambridgeshire)", Atom("sergeant", ("Cambridgeshire",))),
        ("police.sergeant-on-duty(X)", Atom("police.sergeant-on-duty", ("X",))),
        ("a(b)", Atom("a", (Variable("b"),))),
        ("a(B)", Atom("a", ("B",))),
        ("a(xy)", Atom("a", ("xy",))),
        ('a("x")', Atom("a", ("x",))),
        ("a('it\\'s')", Atom("a", ("it's",))),
        ('a("two words", "a,b)", "\\u00e9")', Atom("a", ("two words", "a,b)", "é"))),
        ("a(-5, 0.25, 7.0, -0)", Atom("a", (-5, 0.25, 7, 0))),
        ('a(007, "7", 1e5, anna@met.uk)', Atom("a", ("007", "7", "1e5", "anna@met.uk"))),
        ("a(3b, P-17)", Atom("a", ("3b", "P-17"))),
        ("a(é, _, ß1)", Atom("a", ("é", "_", "ß1"))),
        ("not-on-duty(x)", Atom("not-on-duty", (X,))),
        ("not", Atom("not")),
        ('a("")', Atom("a", ("",))),
    ],
)  # fmt: skip
def test_reading(text: str, atom: Atom) -> None:
    assert read_atom(text) == atom
    assert read_atom(atom.text) == atom


@pytest.mark.parametrize(
    ("atom", "text"),
    [
        (Atom("a", ("x", 7, "7", X)), 'a("x", 7, "7", x)'),
        (Atom("a", (7.0, 0.1, 1e-7, -2.5)), "a(7, 0.1, 0.0000001, -2.5)"),
        (Atom("a", ("two words", "-5", 'q"')), 'a("two words", "-5", "q\\"")'),
    ],
)
def test_writing(atom: Atom, text: str) -> None:
    assert atom.text == text
    assert read_atom(text) == atom


def test_a_number_is_no_text_and_a_name_is_the_same_text_in_quotes() -> None:
    assert read_atom("a(7)") == read_atom("a(7.0)")
    assert read_atom("a(7)") != read_atom('a("7")')
    assert read_atom("a(anna)") == read_atom('a("anna")') == read_atom("a('anna')")


@pytest.mark.parametrize(
    ("text", "kind", "at", "message"),
    [
        ("", "syntax", 0, "unexpected end; expected the name of a role"),
        ("9a", "syntax", 0, "unexpected `9`"),
        ("a b", "syntax", 2, "unexpected `b`; expected the end"),
        ("a(x", "syntax", 3, "expected `,` or `)`"),
        ("a(x y)", "syntax", 4, "unexpected `y`; expected `,` or `)`"),
        ("a(x,)", "syntax", 4, "unexpected `)`"),
        ("a(,x)", "syntax", 2, "unexpected `,`"),
        ("a(x))", "syntax", 4, "unexpected `)`; expected the end"),
        ("a(b(x))", "syntax", 3, "unexpected `(`"),
        ('a("x)', "syntax", 2, "does not end"),
        ('a( "\\q")', "syntax", 4, "no escape"),
        ("a(-b)", "syntax", 2, "unexpected `-`"),
        ("a(x) && !b(x)", "syntax", 5, "unexpected `&`"),
        (" !a(x)", "unsupported", 1, "negative rule"),
        ("not a(x)", "unsupported", 0, "negative rule"),
        ("NOT(a)", "unsupported", 0, "negative rule"),
        ("~a", "unsupported", 0, "negative rule"),
        ("env.hour >= 9", "invalid", 0, "about the environment"),
        ("a" * (MAX_ATOM + 1), "too-large", 0, "characters"),
        (f"a({'9' * 101})", "too-large", 2, "digits"),
        (f"a({', '.join('1' * (MAX_PARAMETERS + 1))})", "too-large", 0, "parameters"),
        ('a("\\ud800")', "invalid", 3, "surrogate"),
    ],
)
def test_what_cannot_be_read(text: str, kind: str, at: int, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_atom(text)
    assert (caught.value.kind, caught.value.at) == (kind, at)
    assert message in caught.value.message


def test_values_are_asked_for_where_no_variable_may_stand() -> None:
    assert ground_atom("a(7)").terms == (7,)
    with pytest.raises(InputError) as caught:
        ground_atom("sworn(q)", "appointment")
    assert (caught.value.kind, caught.value.suggestion) == ("invalid", '"q"')
    assert "appointment" in caught.value.message


def test_binding_and_matching() -> None:
    pair = read_atom("pair(x, y, x)")
    assert pair.variables == ("x", "y")
    assert pair.bound({"x": 1}).text == "pair(1, y, 1)"
    assert pair.match(read_atom("pair(1, 2, 1)"), {}) == {"x": 1, "y": 2}
    assert pair.match(read_atom("pair(1, 2, 3)"), {}) is None
    assert pair.match(read_atom("pair(1, 2, 1)"), {"y": 3}) is None
    assert read_atom("a(1, x)").match(read_atom("a(2, 2)"), {}) is None


def test_order_is_by_name_then_numbers_then_texts() -> None:
    atoms = [read_atom(text) for text in ("b", "a(z1)", 'a("7")', "a(10)", "a(9.5)", "a(1, 1)")]
    assert [each.text for each in sorted(atoms, key=order)] == [
        "a(9.5)", "a(10)", 'a("7")', "a(z1)", "a(1, 1)", "b",
    ]  # fmt: skip
