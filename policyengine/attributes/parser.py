"""Text to typed expression."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final, TypeAlias

from lark import Lark
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from policyengine.attributes.grammar import Raw, build_parser
from policyengine.attributes.problems import nearest, shown
from policyengine.attributes.syntax import MAX_NESTING, Expression
from policyengine.attributes.types import Schema
from policyengine.attributes.typing_pass import typed
from policyengine.errors import InputError

MAX_TEXT: Final = 131_072
"""Longest expression, in characters."""

# Text may lack its end here: trying each quote in vain would take time that grows as the square.
_BRACKETS: Final = re.compile(r'"(?:[^"\\\n]|\\.)*+"?|\'(?:[^\'\\\n]|\\.)*+\'?|[()]|!+')
_FUNCTIONS: Final = ("has", "atLeast", "startsWith", "endsWith")
_WORDS: Final = {"and": "&&", "or": "||", "not": "!", "&": "&&", "|": "||", "=": "==", "<>": "!="}
_EXPECTED: Final = {
    "NAME": "an attribute", "STRING": "text in quotes", "NUMBER": "a number",
    "OPERATOR": "a comparison", "METHOD": "`.startsWith(` or `.endsWith(`",
    "INFIX": "`startsWith` or `endsWith`", "_HAS": "`has(`", "AT_LEAST": "`atLeast(`",
    "LPAR": "`(`", "RPAR": "`)`", "LSQB": "`[`", "RSQB": "`]`", "COMMA": "`,`", "BANG": "`!`",
    "TRUE": "`true`", "FALSE": "`false`", "IN": "`in`", "$END": "the end",
    "__ANON_0": "`||`", "__ANON_1": "`&&`",
}  # fmt: skip

_Unexpected: TypeAlias = UnexpectedCharacters | UnexpectedToken


def parse(text: str, schema: Schema, *, joins: bool = False) -> Expression:
    """Read an expression of the policy language.

    Args:
        text: the expression, at most `MAX_TEXT` characters.
        schema: the attributes it may name and their types.
        joins: whether `a == b` may compare two declared attributes.

    Returns:
        The expression with its types checked. Literals of a `float` attribute
        are floats; `on` alone is `on == true`.

    Raises:
        InputError: `syntax`, `type`, `unknown`, `invalid`, `unsupported` or
            `too-large`, with the position and, where one comes to mind, a suggestion.
    """
    if len(text) > MAX_TEXT:
        raise InputError("too-large", f"the expression has over {MAX_TEXT} characters", at=0)
    _check_nesting(text)
    return typed(_read(text), schema, joins=joins)


@lru_cache(maxsize=1)
def _parser() -> Lark:
    return build_parser()


def _read(text: str) -> Raw:
    try:
        raw: Any = _parser().parse(text)
    except (UnexpectedCharacters, UnexpectedToken) as error:
        raise _syntax_error(text, error) from None
    assert isinstance(raw, Raw)
    return raw


def _check_nesting(text: str) -> None:
    # A cheap bound before the parser sees the text; the exact count is the grammar's.
    depth = 0
    for match in _BRACKETS.finditer(text):
        mark = match.group()
        if mark == "(":
            depth += 1
        elif mark == ")":
            depth -= 1
        # a call's own bracket is no nesting, so one more may be open
        if depth > MAX_NESTING + 1 or (mark[0] == "!" and len(mark) > MAX_NESTING):
            raise InputError(
                "too-large", f"the expression nests over {MAX_NESTING} deep", at=match.start()
            )


def _syntax_error(text: str, error: _Unexpected) -> InputError:
    at = error.pos_in_stream if isinstance(error.pos_in_stream, int) else len(text)
    found, wanted = _found_and_wanted(text, error, at)
    suggestion = _suggestion(text, at, found)
    if found in ('"', "'"):
        message = f"text that begins with {found} does not end; expected {found}"
        return InputError("syntax", message, at=at, suggestion=found)
    unexpected = f"unexpected {shown(found)}" if found else "unexpected end"
    return InputError(
        "syntax", f"{unexpected}; expected {wanted}", at=len(text) if not found else at,
        suggestion=suggestion,
    )  # fmt: skip


def _found_and_wanted(text: str, error: _Unexpected, at: int) -> tuple[str, str]:
    if isinstance(error, UnexpectedCharacters):
        return text[at], "an attribute, a value, an operator or a bracket"
    found = "" if error.token.type == "$END" else str(error.token)
    names = sorted(_EXPECTED.get(name, name) for name in error.accepts or error.expected)
    return found, " or ".join(names)


def _suggestion(text: str, at: int, found: str) -> str | None:
    before = re.search(r"([A-Za-z_]+|[<>=])\s*$", text[max(0, at - 64) : at])
    word = before.group(1) if before else ""
    if found == "(":
        return nearest(word, _FUNCTIONS) if word else None
    for candidate in (found, word, word + found):
        if candidate.lower() in _WORDS:
            return _WORDS[candidate.lower()]
    return None
