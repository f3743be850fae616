"""Parametrised roles and appointments: `officer(x)`, `treating-doctor(7, "ward 3")`.

Lower-case single letters, a to z, are variables. Anything else is a constant: a
number, a name, or text in quotes (paper 002, section 3.2). A name and the same
text in quotes are one constant; a number and the same digits in quotes are two.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Final, TypeAlias, cast

from policyengine.attributes import AttributeType, Test, parse, shown, value_text
from policyengine.errors import InputError

MAX_ATOM: Final = 4096
"""Longest text of a role or appointment, in characters."""
MAX_PARAMETERS: Final = 32
"""How many parameters a role or appointment may have."""
MAX_DIGITS: Final = 100
"""Longest number, in characters."""

Constant: TypeAlias = str | int | float
"""A value of a parameter; 7 and 7.0 are one value, and never equal to the text `"7"`."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A parameter that stands for any constant, the same one throughout a rule.

    Args:
        name: one letter from a to z.
    """

    name: str


Term: TypeAlias = Variable | Constant
Bindings: TypeAlias = Mapping[str, Constant]
"""What the variables of a rule stand for."""
Signature: TypeAlias = tuple[str, int]
"""Name and number of parameters: `officer(x)` and `officer(x, y)` are two roles."""

_NAME: Final = re.compile(r"[^\W\d]\w*(?:[.-]\w+)*")
_WORD: Final = re.compile(r"\w[\w.:@/-]*")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_TOKEN: Final = re.compile(
    r"""(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?P<word>-?\w[\w.:@/-]*)|(?P<mark>[(),])"""
)
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_NEGATION: Final = re.compile(r"\s*(?:[!~¬]|not(?=\s+\S|\s*\())", re.IGNORECASE)
_QUOTED: Final = {"v": AttributeType("string")}


@dataclass(frozen=True, slots=True)
class Atom:
    """A role or an appointment with its parameters; ground when it has no variable.

    Args:
        name: letters, digits and underscores, with single hyphens and dots inside.
        terms: its parameters, at most `MAX_PARAMETERS`.
    """

    name: str
    terms: tuple[Term, ...] = ()

    @property
    def signature(self) -> Signature:
        """Name and number of parameters."""
        return self.name, len(self.terms)

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables, in the order in which they first stand, once each."""
        found = (term.name for term in self.terms if isinstance(term, Variable))
        return tuple(dict.fromkeys(found))

    @property
    def text(self) -> str:
        """The one text that `read_atom` reads as this atom: `pair(7, "two words")`."""
        if not self.terms:
            return self.name
        return f"{self.name}({', '.join(term_text(term) for term in self.terms)})"

    def bound(self, bindings: Bindings) -> Atom:
        """Put constants in the place of variables; others stay."""
        return Atom(self.name, tuple(_value(term, bindings) for term in self.terms))

    def match(self, ground: Atom, bindings: Bindings) -> dict[str, Constant] | None:
        """Find what the variables stand for when this atom is another one.

        Args:
            ground: an atom of the same signature, without variables.
            bindings: what is known already.

        Returns:
            The bindings with those that were added, or None when they differ.
        """
        found = dict(bindings)
        for term, value in zip(self.terms, ground.terms, strict=True):
            constant = cast(Constant, value)
            wanted = found.setdefault(term.name, constant) if isinstance(term, Variable) else term
            if wanted != constant:
                return None
        return found


def read_atom(text: str, what: str = "role") -> Atom:
    """Read a role or an appointment.

    Args:
        text: such as `officer(7)`, `sergeant(Cambridgeshire)`, `guest`, `pair(x, "two words")`.
        what: kind of the thing, for messages.

    Raises:
        InputError: `syntax` with the position; `unsupported` for a negation;
            `invalid` for a constraint in the place of a role; `too-large`.
    """
    if len(text) > MAX_ATOM:
        raise InputError("too-large", f"the {what} has over {MAX_ATOM} characters", at=0)
    return _read(text, what)


def ground_atom(text: str, what: str = "role") -> Atom:
    """Read a role or an appointment that has no variables.

    Raises:
        InputError: as `read_atom`; `invalid` when a parameter is a variable.
    """
    atom = read_atom(text, what)
    if atom.variables:
        letter = atom.variables[0]
        raise InputError(
            "invalid",
            f"{shown(letter)} is a variable; expected a value for every parameter of the {what}"
            " (text of one letter stands in quotes)",
            where=atom.text[:200],
            suggestion=f'"{letter}"',
        )
    return atom


def term_text(term: Term) -> str:
    """Write one parameter so that it reads back the same; quotes only where they are needed."""
    if isinstance(term, Variable):
        return term.name
    if isinstance(term, str) and _WORD.fullmatch(term) and not _reads_otherwise(term):
        return term
    if isinstance(term, float) and not term.is_integer():
        return format(Decimal(repr(term)), "f")  # never an exponent: `1e5` is a name
    return value_text(term) if isinstance(term, str) else str(int(term))


def order(atom: Atom) -> tuple[str, int, tuple[tuple[int, int | float, str], ...]]:
    """Key for sorting ground atoms: by name, numbers by value and before texts."""
    return atom.name, len(atom.terms), tuple(_rank(cast(Constant, term)) for term in atom.terms)


def _rank(term: Constant) -> tuple[int, int | float, str]:
    return (1, 0, term) if isinstance(term, str) else (0, term, "")


def _value(term: Term, bindings: Bindings) -> Term:
    return bindings.get(term.name, term) if isinstance(term, Variable) else term


def _reads_otherwise(word: str) -> bool:
    return _is_variable(word) or _NUMBER.fullmatch(word) is not None


def _is_variable(word: str) -> bool:
    return len(word) == 1 and "a" <= word <= "z"


@lru_cache(maxsize=4096)
def _read(text: str, what: str) -> Atom:
    if _NEGATION.match(text):
        # paper 002, section 3.2: "OASIS has no negative rules"
        raise InputError(
            "unsupported",
            f"a rule cannot ask that something is not there; {shown(text.strip())} would be a"
            f" negative rule, expected a {what}",
            at=_skip(text, 0),
        )
    return _Reader(text, what).atom()


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    assert space is not None  # it matches nothing at all, too
    return space.end()


class _Reader:
    """Reads one atom from left to right; nothing nests."""

    def __init__(self, text: str, what: str) -> None:
        self._text = text
        self._what = what
        self._at = 0

    def atom(self) -> Atom:
        name = self._name()
        terms: list[Term] = []
        closed = not self._mark("(") or self._mark(")")
        while not closed:
            terms.append(self._term())
            closed = not self._mark(",")
            if closed and not self._mark(")"):
                raise self._unexpected("`,` or `)`")
        if len(terms) > MAX_PARAMETERS:
            raise InputError(
                "too-large", f"the {self._what} has over {MAX_PARAMETERS} parameters", at=0
            )
        self._at = _skip(self._text, self._at)
        if self._at < len(self._text):
            raise self._unexpected("the end")
        return Atom(name, tuple(terms))

    def _name(self) -> str:
        self._at = start = _skip(self._text, 0)
        found = _NAME.match(self._text, start)
        if found is None:
            raise self._unexpected(f"the name of a {self._what}")
        if found.group().startswith("env."):
            raise InputError(
                "invalid",
                f"{shown(self._text.strip())} is about the environment; expected a {self._what}"
                " (conditions on the environment are constraints)",
                at=start,
            )
        self._at = found.end()
        return found.group()

    def _mark(self, wanted: str) -> bool:
        at = _skip(self._text, self._at)
        there = self._text.startswith(wanted, at)
        if there:
            self._at = at + 1
        return there

    def _term(self) -> Term:
        self._at = start = _skip(self._text, self._at)
        found = _TOKEN.match(self._text, start)
        if found is None or found.lastgroup == "mark":
            raise self._unexpected("a variable, a number, a name or text in quotes")
        self._at = found.end()
        token = found.group()
        if found.lastgroup == "text":
            return _unquoted(token, start)
        if _is_variable(token):
            return Variable(token)
        if _NUMBER.fullmatch(token):
            return _number(token, start)
        if token.startswith("-"):
            self._at = start
            raise self._unexpected("a number behind `-`, or text in quotes")
        return token

    def _unexpected(self, expected: str) -> InputError:
        at = _skip(self._text, self._at)
        found = self._text[at : at + 1]
        if found in ('"', "'") and "quotes" in expected:
            message = f"text that begins with {found} does not end; expected {found}"
            return InputError("syntax", message, at=at, suggestion=found)
        unexpected = f"unexpected {shown(found)}" if found else "unexpected end"
        return InputError("syntax", f"{unexpected}; expected {expected}", at=at)


def _unquoted(token: str, at: int) -> str:
    # The policy language's own reader, so that escapes mean the same everywhere.
    before = "v == "
    try:
        test = parse(before + token, _QUOTED)
    except InputError as error:
        place = None if error.at is None else error.at - len(before) + at
        raise InputError(error.kind, error.message, at=place) from None
    return cast(str, cast(Test, test).value)


def _number(token: str, at: int) -> int | float:
    if len(token) > MAX_DIGITS:
        raise InputError("too-large", f"the number has over {MAX_DIGITS} digits", at=at)
    if "." not in token:
        return int(token)
    number = float(token)
    return int(number) if number.is_integer() else number
