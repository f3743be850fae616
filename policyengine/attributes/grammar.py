"""The grammar: a subset of the Common Expression Language, read by lark (LALR).

The callbacks build untyped nodes while the text is read, so that neither
reading nor building recurses. Types are checked afterwards (`typing_pass`).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from lark import Lark, Token

from policyengine.attributes.problems import shown
from policyengine.attributes.syntax import MAX_NESTING
from policyengine.errors import InputError

MAX_TESTS: Final = 1024
"""How many tests an expression may have."""

GRAMMAR: Final = r"""
start: _expression
_expression: either
either: both ("||" both)*
both: _term ("&&" _term)*
_term: negation | _atom | comparison
negation: "!" (negation | _atom)
_atom: bracket | bare | constant | has | at_least | method
bracket: "(" _expression ")"
bare: NAME
constant: TRUE | FALSE
has: _HAS "(" NAME ")"
at_least: AT_LEAST "(" NUMBER "," "[" _expression ("," _expression)* "]" ")"
method: NAME METHOD "(" STRING ")"
comparison: NAME OPERATOR (value | NAME) -> compare
    | value OPERATOR NAME -> compare_reversed
    | NAME "in" "[" [value ("," value)*] "]" -> member
    | NAME INFIX STRING -> method
value: STRING | NUMBER | TRUE | FALSE

_HAS.2: /has(?=\s*\()/
AT_LEAST.2: /atLeast(?=\s*\()/
METHOD.2: /\.(?:startsWith|endsWith)(?=\s*\()/
INFIX.2: /(?:startsWith|endsWith)(?=\s*["'])/
TRUE: "true"
FALSE: "false"
NAME: /[A-Za-z_][A-Za-z0-9_]*(?:\.(?!(?:startsWith|endsWith)\s*\()[A-Za-z_][A-Za-z0-9_]*)*/
NUMBER: /-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/
STRING: /"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'/
OPERATOR: "==" | "!=" | "<=" | ">=" | "<" | ">"
%ignore /[ \t\r\n]+/
"""

_ESCAPE: Final = re.compile(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", re.DOTALL)
_PLAIN: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_LITERAL: Final = "\\\"'`?/"


@dataclass(frozen=True, slots=True)
class Raw:
    """One untyped node.

    Args:
        kind: rule of the grammar.
        at: position in the text.
        depth: brackets and negations inside.
        name: attribute, or the operator's attribute side.
        op: operator.
        values: literals with their positions, or terms.
        count: k of `atLeast`.
    """

    kind: str
    at: int
    depth: int = 0
    name: str = ""
    op: str = ""
    values: tuple[Any, ...] = ()
    count: int = 0


@dataclass(frozen=True, slots=True)
class RawValue:
    """One literal value, or the name of an attribute where a value may stand."""

    value: Any
    at: int
    is_name: bool = False


class Builder:
    """Builds untyped nodes; lark calls the method that bears a rule's name."""

    def start(self, parts: list[Any]) -> Raw:
        """Return the whole expression."""
        node: Raw = parts[0]
        if _count(node) > MAX_TESTS:
            raise InputError("too-large", f"the expression has over {MAX_TESTS} tests", at=node.at)
        return node

    def either(self, parts: list[Any]) -> Raw:
        """Build `a || b || ...`; one term stays itself."""
        return _chain("or", parts)

    def both(self, parts: list[Any]) -> Raw:
        """Build `a && b && ...`; one term stays itself."""
        return _chain("and", parts)

    def negation(self, parts: list[Any]) -> Raw:
        """Build `!a`; a bracket behind it is the same level."""
        inner: Raw = parts[0]
        depth = inner.depth if inner.kind == "bracket" else inner.depth + 1
        return _nested(Raw("not", inner.at, depth, values=(inner,)))

    def bracket(self, parts: list[Any]) -> Raw:
        """Build `(a)`."""
        return _nested(Raw("bracket", parts[0].at, parts[0].depth + 1, values=(parts[0],)))

    def bare(self, parts: list[Any]) -> Raw:
        """Build a boolean attribute that stands alone."""
        return Raw("bare", _at(parts[0]), name=str(parts[0]))

    def constant(self, parts: list[Any]) -> Raw:
        """Build `true` or `false`."""
        return Raw("constant", _at(parts[0]), op=str(parts[0]))

    def has(self, parts: list[Any]) -> Raw:
        """Build `has(a)`."""
        return Raw("has", _at(parts[0]), name=str(parts[0]))

    def at_least(self, parts: list[Any]) -> Raw:
        """Build `atLeast(k, [a, b])`."""
        word, count, *terms = parts
        number = _number(count)
        if not isinstance(number, int) or not 1 <= number <= len(terms):
            raise InputError(
                "invalid",
                f"{shown(count)} of {len(terms)} terms cannot be asked for;"
                f" expected a whole number from 1 to {len(terms)}",
                at=_at(count),
            )
        depth = 1 + max(term.depth for term in terms)
        return _nested(Raw("atLeast", _at(word), depth, values=tuple(terms), count=number))

    def method(self, parts: list[Any]) -> Raw:
        """Build `a.startsWith("x")`."""
        name, word, text = parts
        value = RawValue(_string(text), _at(text))
        return Raw("compare", _at(name), name=str(name), op=str(word).lstrip("."), values=(value,))

    def compare(self, parts: list[Any]) -> Raw:
        """Build `a < 5`."""
        name, op, other = parts
        if isinstance(other, Token):
            other = RawValue(str(other), _at(other), is_name=True)
        return Raw("compare", _at(name), name=str(name), op=str(op), values=(other,))

    def compare_reversed(self, parts: list[Any]) -> Raw:
        """Build `5 > a` as `a < 5`."""
        value, op, name = parts
        turned = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(str(op), str(op))
        return Raw("compare", _at(name), name=str(name), op=turned, values=(value,))

    def member(self, parts: list[Any]) -> Raw:
        """Build `a in [1, 2]`."""
        name, *values = parts
        given = tuple(value for value in values if value is not None)
        return Raw("compare", _at(name), name=str(name), op="in", values=given)

    def value(self, parts: list[Any]) -> RawValue:
        """Build a literal value."""
        token = parts[0]
        readers = {"STRING": _string, "NUMBER": _number}
        reader = readers.get(token.type, lambda word: str(word) == "true")
        return RawValue(reader(token), _at(token))


def build_parser() -> Lark:
    """Make the parser; done once."""
    return Lark(GRAMMAR, parser="lalr", lexer="basic", transformer=Builder())


def _at(token: Any) -> int:
    return int(token.start_pos)


def _chain(kind: str, parts: list[Any]) -> Raw:
    if len(parts) == 1:
        only: Raw = parts[0]
        return only
    return Raw(kind, parts[0].at, max(part.depth for part in parts), values=tuple(parts))


def _nested(node: Raw) -> Raw:
    if node.depth > MAX_NESTING:
        raise InputError("too-large", f"the expression nests over {MAX_NESTING} deep", at=node.at)
    return node


def _count(node: Raw) -> int:
    stack, tests = [node], 0
    while stack:
        current = stack.pop()
        if current.kind in ("or", "and", "not", "bracket", "atLeast"):
            stack.extend(current.values)
        else:
            tests += 1
    return tests


def _number(token: Any) -> int | float:
    text = str(token)
    if not re.search("[.eE]", text):
        if len(text) > 101:
            raise InputError("too-large", "the number has over 100 digits", at=_at(token))
        return int(text)
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise InputError("too-large", f"{shown(text)} is too large for a number", at=_at(token))
    return number


def _string(token: Any) -> str:
    text, start = str(token), _at(token) + 1

    def plain(match: re.Match[str]) -> str:
        body = match.group(1)
        if len(body) > 1:
            return _code_point(int(body[1:], 16), start + match.start())
        if body in _PLAIN:
            return _PLAIN[body]
        if body in _LITERAL:
            return body
        raise InputError(
            "syntax", f"{shown(match.group())} is no escape of the language",
            at=start + match.start(),
        )  # fmt: skip

    inner = text[1:-1]
    if "\\" not in inner:
        return _whole(inner, start)
    return _whole(_joined_surrogates(_ESCAPE.sub(plain, inner)), start)


def _code_point(number: int, at: int) -> str:
    if number > 0x10FFFF:
        raise InputError("syntax", "the escape names no character", at=at)
    return chr(number)


def _joined_surrogates(text: str) -> str:
    # JSON writes characters beyond the first 65,536 as two escapes
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _whole(text: str, at: int) -> str:
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise InputError("invalid", "half a character (a lone surrogate) is no text", at=at)
    return text


def quoted(text: str) -> str:
    """Write text as a literal, for a suggestion."""
    return json.dumps(text, ensure_ascii=False)
