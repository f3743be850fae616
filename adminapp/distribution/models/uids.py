"""Identifiers that are shown to people."""

from __future__ import annotations

import uuid


def new_uid() -> str:
    """An identifier that can be shown and guessed by nobody."""
    return uuid.uuid4().hex
