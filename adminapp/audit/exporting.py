"""Entries as they leave: one JSON object each, and the checkpoint that vouches for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db.models import QuerySet

from adminapp.audit import mapping, selectors
from adminapp.audit.models import Entry

BATCH = 1000


def documents(found: QuerySet[Entry]) -> Iterator[dict[str, Any]]:
    """Every entry found, the oldest first, in batches; then `{"checkpoint": ...}`.

    The checkpoint is the last one that was signed, None before the first; the proof of an entry
    leads to its root.
    """
    state = selectors.state()
    last = 0
    ordered = found.order_by("sequence").filter(sequence__lte=state.size)
    while batch := list(ordered.filter(sequence__gt=last)[:BATCH]):
        yield from map(mapping.exported, batch)
        last = batch[-1].sequence
    checkpoint = state.checkpoint
    yield {
        "checkpoint": None
        if checkpoint is None
        else {"size": checkpoint.size, "root": checkpoint.root, "note": checkpoint.note},
        "size": state.size,
        "root": state.root,
    }
