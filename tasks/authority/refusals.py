"""The authority's way to say no."""

from __future__ import annotations


class RefusedError(Exception):
    """A request the authority does not answer; the message is safe to hand back."""
