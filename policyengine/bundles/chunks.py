"""Bundles that are too large for one message: a manifest, and their parts in pieces.

    chunk  = pack("portcullis/bundle-chunk/v1", "<audience>|<domain>", digest, index, sealed)
    sealed = HPKE(piece, info = pack(purpose, "<audience>|<domain>", digest, index))

The digest is that of the manifest's header, which hashes every piece. So a piece opens for one
audience, in one bundle and at one place alone, and nothing is kept that no manifest asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from policyengine.bundles.contexts import CHUNK
from policyengine.bundles.header import BundleHeader, Manifest, PartRef
from policyengine.bundles.limits import MAX_MESSAGE
from policyengine.bundles.sealing import reject
from policyengine.errors import DecodeError, DecryptionError, RejectedError
from policyengine.primitives.canonical import pack, unpack
from policyengine.primitives.hashing import digest as sha256
from policyengine.primitives.hpke import SealingKey, open_sealed, seal_to

_INDEX_SIZE = 2


def cut(parts: Sequence[bytes], size: int) -> tuple[bytes, ...]:
    """Cut parts, one behind the other, into pieces of `size` bytes; the last may be shorter."""
    body = b"".join(parts)
    return tuple(body[at : at + size] for at in range(0, len(body), size))


def seal_chunks(
    pieces: Sequence[bytes], *, address: bytes, digest: str, recipient: bytes
) -> tuple[bytes, ...]:
    """Seal the pieces of a bundle, each for a message of its own.

    Args:
        pieces: as `cut` made them.
        address: `<audience>|<domain>`.
        digest: SHA-256 of the header's bytes.
        recipient: the audience's public sealing key.
    """
    return tuple(
        pack(
            CHUNK,
            address,
            digest.encode(),
            _index(number),
            seal_to(recipient, piece, info=_info(address, digest, number)),
        )
        for number, piece in enumerate(pieces)
    )


@dataclass(frozen=True)
class Gathering:
    """A bundle whose pieces arrive.

    Args:
        manifest: it says which ones are to come.
        held: index -> piece, each as the manifest hashes it.
    """

    manifest: Manifest
    held: Mapping[int, bytes] = field(default_factory=dict, repr=False)

    def add(self, message: bytes, *, key: SealingKey) -> Gathering:
        """Take a piece; one that is there already changes nothing.

        Args:
            message: the chunk's bytes.
            key: the audience's own key.

        Raises:
            RejectedError: `audience` (someone else's), `previous` (of another bundle than the
                one that is gathered), or `malformed`.
        """
        if len(message) > MAX_MESSAGE:
            reject("malformed", "the chunk is too large")
        header, digest = self.manifest.header, self.manifest.digest
        address = f"{header.audience}|{header.domain}".encode()
        try:
            purpose, written, bundle, index, sealed = unpack(message, 5)
        except DecodeError as error:
            raise RejectedError("malformed", "the chunk does not open") from error
        number = int.from_bytes(index, "big")
        if purpose != CHUNK or len(index) != _INDEX_SIZE or number >= len(header.chunks):
            reject("malformed", "no such chunk is asked for")
        if written != address:
            reject("audience", "the chunk is for someone else")
        if bundle != digest.encode():
            reject("previous", "the chunk is of another bundle")
        if number in self.held:
            return self
        try:
            piece = open_sealed(key, sealed, info=_info(address, digest, number))
        except DecryptionError as error:
            raise RejectedError("malformed", "the chunk does not open") from error
        if not _is(header.chunks[number], piece):
            reject("malformed", "the chunk is not that of the manifest")
        return replace(self, held={**self.held, number: piece})

    @property
    def complete(self) -> bool:
        """Whether every piece is there."""
        return len(self.held) == len(self.manifest.header.chunks)

    def finish(self) -> Manifest:
        """The manifest with its parts, once every piece is there.

        Raises:
            RejectedError: `malformed` when the parts are not those of the manifest.
        """
        body = b"".join(self.held[number] for number in sorted(self.held))
        parts: list[bytes] = []
        at = 0
        for part in self.manifest.header.parts:
            parts.append(body[at : at + part.size])
            at += part.size
        check_parts(self.manifest.header, parts)
        return replace(self.manifest, parts=tuple(parts))


def check_parts(header: BundleHeader, parts: Sequence[bytes]) -> None:
    """Compare parts with the manifest.

    Raises:
        RejectedError: `malformed`.
    """
    # INVARIANT: nothing of a part is parsed before its digest stood in the signed header
    if len(parts) != len(header.parts) or not all(map(_is, header.parts, parts)):
        reject("malformed", "the parts are not those of the manifest")


def _is(ref: PartRef, data: bytes) -> bool:
    return len(data) == ref.size and sha256(data) == ref.sha256


def _index(number: int) -> bytes:
    return number.to_bytes(_INDEX_SIZE, "big")


def _info(address: bytes, digest: str, number: int) -> bytes:
    return pack(CHUNK, address, digest.encode(), _index(number))
