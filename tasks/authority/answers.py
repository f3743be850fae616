"""What an operation hands back: the answer, and what the journal is to say of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Answer:
    """An answer with facts for the journal beside those of the request.

    Args:
        result: what the caller gets.
        facts: what the journal says of it.
        counted: what it counts as, where it is counted and not written down by itself.
        each: the entries of an answer that has several, each with its own facts.
    """

    result: dict[str, Any]
    facts: Mapping[str, Any] = field(default_factory=dict)
    counted: str = ""
    each: Sequence[Mapping[str, Any]] = ()
