"""Questions about many rows at once, in pieces that every database takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")
SIZE = 500


def chunked(values: Iterable[T], size: int = SIZE) -> Iterator[list[T]]:
    """The values in lists of at most `size`."""
    remaining = iter(values)
    while piece := list(islice(remaining, size)):
        yield piece
