"""A bundle's header: the signed manifest over everything in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from policyengine.bundles.limits import AUDIENCE, MAX_MESSAGE
from policyengine.primitives.records import (
    DIGEST,
    DIGEST_OR_EMPTY,
    IDENTIFIER,
    UINT,
    Integer,
    ListOf,
    Nested,
    Record,
    invalid,
)


@dataclass(frozen=True)
class PartRef(Record):
    """One part of a bundle.

    Args:
        name: what it holds.
        sha256: its digest, 64 hexadecimal digits.
        size: its length in bytes.
    """

    name: Annotated[str, IDENTIFIER]
    sha256: Annotated[str, DIGEST]
    size: Annotated[int, Integer(0, MAX_MESSAGE)]


@dataclass(frozen=True)
class BundleHeader(Record):
    """What is signed.

    Args:
        domain: the domain.
        audience: whom the bundle is for, for example `agent:alpha`.
        revision: the domain's revision, from 1.
        previous: digest of the header of the bundle that this one follows at the audience,
            or empty for a bundle that stands alone.
        issued: seconds since 1970.
        expires: seconds since 1970; not accepted from then on.
        root_version: version of the trust anchors.
        parts: the parts in the order in which they follow.
    """

    domain: Annotated[str, IDENTIFIER]
    audience: Annotated[str, AUDIENCE]
    revision: Annotated[int, Integer(1)]
    previous: Annotated[str, DIGEST_OR_EMPTY]
    issued: Annotated[int, UINT]
    expires: Annotated[int, UINT]
    root_version: Annotated[int, UINT]
    parts: Annotated[tuple[PartRef, ...], ListOf(Nested(PartRef), 64)]

    def _agree(self) -> None:
        if len({part.name for part in self.parts}) != len(self.parts):
            raise invalid("parts", "must not repeat a name")
