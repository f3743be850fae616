"""Which conditions agents can check that may not see values: the gate for rules by value.

Under the protections that trust no broker an agent has a ciphertext and a filter. Searchable ones
(paper 001) answer equality, sets and, for numbers, order; order-preserving ones (paper 003) order,
and how a text begins and ends. What they cannot answer nobody would check, so it is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from adminapp.catalog.mapping import EVENT
from adminapp.policies.language import PolicyConjunction
from policyengine.attributes import Literal, Schema

SEARCHABLE = "searchable"
ORDER_PRESERVING = "order-preserving"

_PARTS = ("startsWith", "endsWith")
_NOT_PARTS = ("!startsWith", "!endsWith")
_NOT_EQUAL = ("!=", "!in")


def unanswered(
    ways: tuple[PolicyConjunction, ...], kinds: Mapping[str, str], schema: Schema
) -> Iterator[str]:
    """Why no blind agent could check a condition, in words; nothing when one could.

    Args:
        ways: the condition in normal form.
        kinds: the protection of each attribute, by its own name.
        schema: types by full name.
    """
    asked = dict.fromkeys(literal for way in ways for literal in way.event)
    for literal in asked:
        kind = kinds.get(literal.attribute.removeprefix(EVENT), "")
        text = schema[literal.attribute].kind == "string"
        question = _question(literal, kind, text)
        if question:
            yield f"`{literal.attribute}` is {kind}: its ciphertexts do not tell {question}"


def _question(literal: Literal, kind: str, text: bool) -> str:
    """What a protection leaves open of a test, in words; "" when it answers it."""
    if kind == SEARCHABLE and literal.op in (*_PARTS, *_NOT_PARTS):
        return "how a text begins or ends"
    if kind == SEARCHABLE and text and literal.op in _NOT_EQUAL:
        return "what a text is not"
    if kind == ORDER_PRESERVING and literal.op in _NOT_PARTS:
        return "how a text does not begin or end"
    return ""
