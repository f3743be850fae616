"""Who may read an attribute: alternatives of subject tokens, and their access tree.

A policy is a disjunction of conjunctions of tokens, as rules have them: `[["a", "b"], ["c"]]`
is met by who has `a` and `b`, or `c`. An empty conjunction is met by every client of the
epoch that has a variant, no conjunction at all by nobody.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final, Self

from policyengine.attributes import Element, Gate, Leaf, Node
from policyengine.errors import DecodeError, InputError

MAX_ALTERNATIVES: Final = 1024
"""Most conjunctions of a policy."""
MAX_TOKENS: Final = 256
"""Most tokens of a conjunction."""
_SUBJECT: Final = "subject"
ANYBODY: Final = Element("anybody", "1")
"""What the key of every variant holds."""


def token_element(token: str) -> Element:
    """Return a subject's token as an element of policies and keys."""
    return Element(_SUBJECT, token)


@dataclass(frozen=True, slots=True)
class ReadPolicy:
    """Who may read an attribute.

    Args:
        alternatives: conjunctions of tokens; each sorted and without doubles, none implied by
            another, in ascending order (`of` makes them so).
    """

    alternatives: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, alternatives: Iterable[Collection[str]]) -> Self:
        """Make a policy in its one form.

        Args:
            alternatives: conjunctions of tokens.

        Raises:
            InputError: `too-large` beyond `MAX_ALTERNATIVES` or `MAX_TOKENS`.
        """
        listed = sorted({frozenset(tokens) for tokens in alternatives}, key=len)
        kept: list[frozenset[str]] = []
        for tokens in listed:
            if len(tokens) > MAX_TOKENS:
                raise InputError("too-large", f"a policy asks for at most {MAX_TOKENS} tokens")
            if not any(weaker <= tokens for weaker in kept):
                kept.append(tokens)
        if len(kept) > MAX_ALTERNATIVES:
            raise InputError("too-large", f"a policy has at most {MAX_ALTERNATIVES} alternatives")
        return cls(tuple(sorted(tuple(sorted(tokens)) for tokens in kept)))

    def permits(self, tokens: Collection[str]) -> bool:
        """Tell whether a variant with these tokens may read."""
        held = frozenset(tokens)
        return any(held.issuperset(wanted) for wanted in self.alternatives)

    @property
    def tree(self) -> Node | None:
        """The policy as an access tree; None where nobody may read."""
        terms = [_conjunction(tokens) for tokens in self.alternatives]
        if not terms:
            return None
        return terms[0] if len(terms) == 1 else Gate(1, tuple(terms))

    def to_json(self) -> list[list[str]]:
        """Return the policy as plain JSON values."""
        return [list(tokens) for tokens in self.alternatives]

    @classmethod
    def from_json(cls, document: object) -> Self:
        """Read a policy.

        Raises:
            DecodeError: another form than `to_json` writes.
        """
        if not isinstance(document, list | tuple) or not all(map(_is_tokens, document)):
            raise DecodeError("a read policy is a list of lists of tokens")
        given = tuple(tuple(tokens) for tokens in document)
        try:
            policy = cls.of(given)
        except InputError as error:
            raise DecodeError(error.message) from error
        if policy.alternatives != given:
            raise DecodeError("a read policy has one form")
        return policy


NOBODY: Final = ReadPolicy(())


def _is_tokens(tokens: object) -> bool:
    return isinstance(tokens, list | tuple) and all(type(token) is str for token in tokens)


def _conjunction(tokens: tuple[str, ...]) -> Node:
    leaves = tuple(Leaf(token_element(token)) for token in tokens) or (Leaf(ANYBODY),)
    return leaves[0] if len(leaves) == 1 else Gate(len(leaves), leaves)
