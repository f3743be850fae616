"""Caps that hold before anything is parsed, and the codecs that several structures share."""

from __future__ import annotations

from typing import Final

from policyengine.primitives.records import Binary, ListOf, MapOf, Scalar, Text

MAX_MESSAGE: Final = 8 * 2**20
"""Most bytes of any message on the broker."""
MAX_SMALL: Final = 2**20
"""Most bytes of a message that carries no policy and no event."""
MAX_CHUNK: Final = 4 * 2**20
"""Most bytes of one piece of a bundle that is too large for one message."""
MAX_BUNDLE: Final = 64 * MAX_CHUNK
"""Most bytes of a bundle, however many messages it takes."""
MAX_PARTS: Final = 64
"""Most parts of one publication: at most one an overlay."""

AUDIENCE: Final = Text(
    "(agent|client|comparator):[a-z0-9-]{1,64}",
    75,
    "must be `agent:`, `client:` or `comparator:` and an identifier",
)
TAG: Final = Binary(16, 16)
TAGS: Final = ListOf(TAG, 4096)
SIGNATURE_SIZE: Final = 64
ORDERED: Final = Binary(0, 2**22)
"""Order-preserving values of a part, or a filter (`policyengine.ope`); empty for none."""
BLIND: Final = Binary(0, 2**22)
"""The blind share of a part (`policyengine.blind`); empty where there is none."""


def values_codec() -> MapOf:
    """Return the codec of attribute values: name -> value."""
    return MapOf(Text(r"[^\x00-\x1f\x7f]{1,128}", 128, "must name attributes"), Scalar(), 1024)
