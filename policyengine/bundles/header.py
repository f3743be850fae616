"""A bundle's header: the signed manifest over everything in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Final

from policyengine.bundles.limits import AUDIENCE, MAX_BUNDLE, MAX_CHUNK
from policyengine.primitives.records import (
    DIGEST,
    DIGEST_OR_EMPTY,
    IDENTIFIER,
    UINT,
    Choice,
    Integer,
    ListOf,
    Nested,
    Record,
    invalid,
)

FORMS: Final = ("whole", "delta")


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
    size: Annotated[int, Integer(0, MAX_BUNDLE)]


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
        form: `whole`, or `delta` where the parts say only what changed.
        base: of a delta, digest of the content that it starts from (`entries`); else empty.
        content: digest of the content that will be held, where the parts alone do not show it:
            of a delta, and of a bundle in chunks; else empty.
        chunks: where the parts are too large for one message, the pieces in which they come, one
            after another, each in a message of its own; else none.
    """

    domain: Annotated[str, IDENTIFIER]
    audience: Annotated[str, AUDIENCE]
    revision: Annotated[int, Integer(1)]
    previous: Annotated[str, DIGEST_OR_EMPTY]
    issued: Annotated[int, UINT]
    expires: Annotated[int, UINT]
    root_version: Annotated[int, UINT]
    parts: Annotated[tuple[PartRef, ...], ListOf(Nested(PartRef), 64)]
    form: Annotated[str, Choice(FORMS)] = "whole"
    base: Annotated[str, DIGEST_OR_EMPTY] = ""
    content: Annotated[str, DIGEST_OR_EMPTY] = ""
    chunks: Annotated[tuple[PartRef, ...], ListOf(Nested(PartRef), 64)] = ()

    def _agree(self) -> None:
        if len({part.name for part in self.parts}) != len(self.parts):
            raise invalid("parts", "must not repeat a name")
        if bool(self.base) != (self.form == "delta") or (self.base and not self.previous):
            raise invalid("base", "must stand in a delta, beside the bundle that it follows")
        if bool(self.content) != bool(self.base or self.chunks):
            raise invalid("content", "must stand in a delta and in a bundle in chunks")
        if any(not 0 < chunk.size <= MAX_CHUNK for chunk in self.chunks):
            raise invalid("chunks", f"must have 1 to {MAX_CHUNK} bytes each")
        sizes = [sum(piece.size for piece in pieces) for pieces in (self.chunks, self.parts)]
        if self.chunks and sizes[0] != sizes[1]:
            raise invalid("chunks", "must have the bytes of the parts")


@dataclass(frozen=True)
class Manifest:
    """A bundle's header whose signature and audience were checked, with parts that it hashes.

    Args:
        header: what was signed; revision and expiry are `TrustedState`'s to check.
        digest: SHA-256 of the header's bytes.
        head: these bytes.
        signature: over them, 64 bytes.
        parts: the parts; none where they come in chunks.
    """

    header: BundleHeader
    digest: str
    head: bytes = field(repr=False)
    signature: bytes = field(repr=False)
    parts: tuple[bytes, ...] = field(repr=False)
