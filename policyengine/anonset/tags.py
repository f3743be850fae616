"""Routing tags: the tokens of an event's values under a key of overlay and epoch.

A publisher's client sends tags beside a part; an agent compares them with the tags
of its rules and learns nothing but which are equal.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from policyengine.primitives.prf import prf

TAG: Final = 16
_PURPOSE: Final = "portcullis/tag/v1"


def tag(key: bytes, token: str) -> bytes:
    """Return the tag of one token (16 bytes).

    Args:
        key: 16 to 64 bytes, of one domain, overlay and epoch.
        token: a predicate token (`literal_token`).
    """
    return prf(key, _PURPOSE, token, size=TAG)


def tags(key: bytes, tokens: Iterable[str]) -> frozenset[bytes]:
    """Return the tags of tokens; a rule holds when its tags are among an event's."""
    return frozenset(tag(key, token) for token in tokens)
