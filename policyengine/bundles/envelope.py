"""A bundle's envelope: content in parts, a signed manifest, sealed for one audience.

    message = pack("portcullis/bundle/v1", "<audience>|<domain>", sealed)
    sealed  = HPKE(pack(header, signature, part, part, ...), info = purpose|audience|domain)

The address stands outside in clear, as it does in the queue's name, so that a bundle
which went astray can be told from a damaged one. It protects nothing: the HPKE info
and the signed header do. The signature covers the header's exact bytes, the header the
digest and size of every part. Verify, then parse; nothing is compressed. Parts that do not
fit into one message follow in chunks (`chunks`); a delta has one part (`deltas`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from policyengine.bundles.addresses import split_audience
from policyengine.bundles.authority_seals import opened_secrets
from policyengine.bundles.chunks import check_parts, cut, seal_chunks
from policyengine.bundles.contexts import BUNDLE
from policyengine.bundles.deltas import Delta, apply
from policyengine.bundles.entries import Content, take_apart
from policyengine.bundles.header import BundleHeader, Manifest, PartRef
from policyengine.bundles.limits import MAX_BUNDLE, MAX_MESSAGE, MAX_PARTS
from policyengine.bundles.model import AgentContent, ClientContent, ComparatorContent
from policyengine.bundles.sealing import Sign, read_body, reject, write_body
from policyengine.errors import (
    DecodeError,
    DecryptionError,
    InputError,
    RejectedError,
    SignatureError,
)
from policyengine.primitives.canonical import dumps, loads, pack, unpack, unpack_all
from policyengine.primitives.hashing import digest as sha256
from policyengine.primitives.hpke import SealingKey, open_sealed, seal_to
from policyengine.primitives.signatures import verify

# which members of the content travel in which part: a part changes when its members do
_AGENT_PARTS: Final = {
    "scope": ("domain", "agent", "overlay", "lease_seconds", "notices_through"),
    "types": ("types",),
    "peers": ("agents",),
    "clients": ("clients",),
    "epochs": ("epochs",),
    "keys": ("wraps",),
}
_CLIENT_PARTS: Final = {
    "scope": ("domain", "handle", "homes", "publishes", "window_seconds"),
    "types": ("types",),
    "splits": ("splits",),
    "keys": ("tag_keys",),
    "predicates": ("predicates",),
}
_COMPARATOR_PARTS: Final = {"scope": ("domain", "comparator"), "keys": ("ordered",)}
_FORMS: Final[Mapping[str, tuple[type[Content], Mapping[str, tuple[str, ...]]]]] = {
    "agent": (AgentContent, _AGENT_PARTS),
    "client": (ClientContent, _CLIENT_PARTS),
    "comparator": (ComparatorContent, _COMPARATOR_PARTS),
}
CONTENT_FORMS: Final[Mapping[str, type[Content]]] = {
    kind: form for kind, (form, _) in _FORMS.items()
}
"""The class of content by the kind of its audience."""
# what contents had no place for when the layout was made; written only where there is any of it,
# so that an agent of the release before reads what needs nothing new
_LATER: Final = "later"
# the one part of a delta
DELTA: Final = "delta"
_MAX_FIELDS: Final = 2 + MAX_PARTS
# more than address, header, signature, lengths and seal of a bundle ever take
_HEAD_ROOM: Final = 16 * 1024


@dataclass(frozen=True)
class SealedBundle:
    """A bundle ready to be sent.

    Args:
        message: the envelope's bytes.
        digest: SHA-256 of the header's bytes; names the bundle in acknowledgements.
        chunks: messages with its parts, to be sent after the first, where they did not fit in.
    """

    message: bytes
    digest: str
    chunks: tuple[bytes, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all its messages."""
        return len(self.message) + sum(map(len, self.chunks))


@dataclass(frozen=True)
class OpenedBundle:
    """A bundle whose signature, audience and parts were checked.

    Args:
        header: the signed manifest; revision and expiry are `TrustedState`'s to check.
        content: everything in it.
        digest: SHA-256 of the header's bytes.
    """

    header: BundleHeader
    content: Content
    digest: str


def build_bundle(
    *,
    domain: str,
    audience: str,
    revision: int,
    previous: str,
    issued: int,
    expires: int,
    root_version: int,
    content: Content,
    sign: Sign,
    recipient: bytes,
    delta: Delta | None = None,
    limit: int = MAX_MESSAGE,
    chunk: int = 0,
) -> SealedBundle:
    """Sign a content and seal it for its audience.

    Args:
        domain: the domain.
        audience: for example `agent:alpha`.
        revision: the domain's revision, from 1.
        previous: digest of the bundle before, or empty for one that stands alone.
        issued: seconds since 1970.
        expires: seconds since 1970.
        root_version: version of the trust anchors that the signature goes with.
        content: what the audience shall hold.
        sign: signs (context, payload) with the policy key.
        recipient: the audience's public X25519 key, 32 bytes.
        delta: what turns the content of the bundle before into this one, to be sent in its
            place; None sends the whole.
        limit: most bytes of one message, at most 8 MiB.
        chunk: bytes of the pieces in which a larger bundle comes; 0 where none may come so.

    Raises:
        InputError: `too-large` over the limit, or for more pieces than a bundle has; `invalid`
            when a field is out of range or the content is someone else's.
    """
    if _owner(content) != (audience, domain):
        raise InputError("invalid", "the content is not of this audience and domain")
    parts = _write_parts(content) if delta is None else {DELTA: write_body(delta)}
    pieces: tuple[bytes, ...] = ()
    if sum(map(len, parts.values())) > limit - _HEAD_ROOM:
        pieces = cut(tuple(parts.values()), chunk) if chunk else ()
        if not 0 < len(pieces) <= MAX_PARTS:
            raise InputError("too-large", f"the bundle has more than {limit} bytes")
    after = "" if delta is None else delta.after
    header = BundleHeader(
        domain=domain,
        audience=audience,
        revision=revision,
        previous=previous,
        issued=issued,
        expires=expires,
        root_version=root_version,
        parts=_refs(parts),
        form="whole" if delta is None else "delta",
        base="" if delta is None else delta.before,
        content=after or (take_apart(content).digest if pieces else ""),
        chunks=_refs({f"chunk-{number}": piece for number, piece in enumerate(pieces)}),
    )
    head = write_body(header)
    kept = () if pieces else tuple(parts.values())
    sealed = _seal(head, sign(BUNDLE, head), kept, header, recipient)
    if not pieces:
        return sealed
    address = _address(audience, domain)
    chunks = seal_chunks(pieces, address=address, digest=sealed.digest, recipient=recipient)
    return replace(sealed, chunks=chunks)


def _refs(parts: Mapping[str, bytes]) -> tuple[PartRef, ...]:
    return tuple(PartRef(name, sha256(data), len(data)) for name, data in parts.items())


def _seal(
    head: bytes, signature: bytes, parts: tuple[bytes, ...], header: BundleHeader, recipient: bytes
) -> SealedBundle:
    address = _address(header.audience, header.domain)
    sealed = seal_to(recipient, pack(head, signature, *parts), info=BUNDLE + b"|" + address)
    return SealedBundle(pack(BUNDLE, address, sealed), sha256(head))


def open_bundle(
    message: bytes, *, key: SealingKey, audience: str, domain: str, policy_key: bytes
) -> OpenedBundle:
    """Open a bundle that is whole in one message, and check everything that does not depend on
    what came before.

    Args:
        message: the envelope's bytes.
        key: the audience's own key.
        audience: who opens it.
        domain: the domain that it must be of.
        policy_key: pinned public Ed25519 key of the authority, 32 bytes.

    Raises:
        RejectedError: `audience` (for someone else or of another domain), `signature`
            (not the authority's), or `malformed`.
    """
    manifest = open_manifest(
        message, key=key, audience=audience, domain=domain, policy_key=policy_key
    )
    return opened_bundle(manifest, read_whole(manifest), key=key)


def open_manifest(
    message: bytes, *, key: SealingKey, audience: str, domain: str, policy_key: bytes
) -> Manifest:
    """Open a bundle's first message and check signature, audience, domain and parts.

    Takes and raises what `open_bundle` does; the content is not read yet.
    """
    if len(message) > MAX_MESSAGE:
        reject("malformed", "the bundle is too large")
    try:
        head, signature, *parts = _open_envelope(message, key, _address(audience, domain))
    except (DecodeError, DecryptionError, ValueError) as error:
        raise RejectedError("malformed", "the bundle does not open") from error
    manifest = check_head(head, signature, audience=audience, domain=domain, policy_key=policy_key)
    if manifest.header.chunks:
        if parts:
            reject("malformed", "the bundle has parts beside its chunks")
        return manifest
    check_parts(manifest.header, parts)
    return replace(manifest, parts=tuple(parts))


def check_head(
    head: bytes, signature: bytes, *, audience: str, domain: str, policy_key: bytes
) -> Manifest:
    """Check a header's signature, then read it.

    Raises:
        RejectedError: `audience`, `signature` or `malformed`.
    """
    try:
        verify(policy_key, signature, BUNDLE, head)
    except SignatureError as error:
        raise RejectedError("signature", "the bundle's signature does not verify") from error
    header = read_body(BundleHeader, head)
    if (header.audience, header.domain) != (audience, domain):
        reject("audience", "the bundle is for someone else")
    return Manifest(header, sha256(head), head, signature, ())


def read_whole(manifest: Manifest) -> Content:
    """Read the content of a whole bundle, with keys as the authority sealed them.

    Args:
        manifest: with all its parts.

    Raises:
        RejectedError: `audience` or `malformed`; of a delta, too.
    """
    header = manifest.header
    form, layout = _FORMS[split_audience(header.audience)[0]]
    names = [part.name for part in header.parts]
    whole = names in ([*layout], [*layout, _LATER]) and len(manifest.parts) == len(names)
    if header.form != "whole" or not whole:
        reject("malformed", "the bundle has other parts")
    try:
        content = form.from_json(_join(layout, manifest.parts))
    except DecodeError as error:
        raise RejectedError("malformed", str(error)) from error
    return _owned(content, header)


def read_delta(manifest: Manifest, before: Content) -> Content:
    """Carry out what a delta says, with keys as the authority sealed them.

    Args:
        manifest: with all its parts.
        before: the content in force.

    Raises:
        RejectedError: `previous` when it starts from another content; `audience`; `malformed`,
            of a whole bundle, too.
    """
    header = manifest.header
    if [part.name for part in header.parts] != [DELTA] or len(manifest.parts) != 1:
        reject("malformed", "the bundle has other parts")
    try:
        delta = Delta.from_json(loads(manifest.parts[0], max_bytes=MAX_BUNDLE))
    except DecodeError as error:
        raise RejectedError("malformed", str(error)) from error
    if (delta.before, delta.after) != (header.base, header.content):
        reject("malformed", "the delta is not that of the manifest")
    return _owned(apply(before, delta), header)


def opened_bundle(manifest: Manifest, content: Content, *, key: SealingKey) -> OpenedBundle:
    """A bundle with its content, and every key in it open.

    Args:
        manifest: of the bundle.
        content: what it holds or leads to.
        key: the audience's own key.

    Raises:
        RejectedError: `malformed` when a key does not open.
    """
    header = manifest.header
    return OpenedBundle(
        header, opened_secrets(content, key=key, audience=header.audience), manifest.digest
    )


def _owned(content: Content, header: BundleHeader) -> Content:
    if _owner(content) != (header.audience, header.domain):
        reject("audience", "the content is for someone else")
    if header.chunks and take_apart(content).digest != header.content:
        reject("malformed", "the content is not that of the manifest")
    return content


def _open_envelope(message: bytes, key: SealingKey, address: bytes) -> tuple[bytes, ...]:
    purpose, written, sealed = unpack(message, 3)
    if purpose != BUNDLE:
        raise DecodeError("not a bundle")
    if written != address:
        reject("audience", "the bundle is for someone else")
    return unpack_all(open_sealed(key, sealed, info=BUNDLE + b"|" + address), limit=_MAX_FIELDS)


def _address(audience: str, domain: str) -> bytes:
    return f"{audience}|{domain}".encode()


def _owner(content: Content) -> tuple[str, str]:
    if isinstance(content, AgentContent):
        return f"agent:{content.agent}", content.domain
    if isinstance(content, ComparatorContent):
        return f"comparator:{content.comparator}", content.domain
    return f"client:{content.handle}", content.domain


def _write_parts(content: Content) -> dict[str, bytes]:
    _, layout = _FORMS[split_audience(_owner(content)[0])[0]]
    members = content.to_json()
    parts = {name: dumps({key: members.pop(key) for key in keys}) for name, keys in layout.items()}
    return {**parts, _LATER: dumps(members)} if members else parts


def _join(layout: Mapping[str, tuple[str, ...]], parts: Sequence[bytes]) -> dict[str, object]:
    members: dict[str, object] = {}
    for keys, data in zip(layout.values(), parts, strict=False):
        part = loads(data, max_bytes=MAX_BUNDLE)
        if type(part) is not dict or set(part) != set(keys):
            raise DecodeError("a part has other members")
        members.update(part)
    for data in parts[len(layout) :]:
        later = loads(data, max_bytes=MAX_BUNDLE)
        if type(later) is not dict or not later or set(later) & set(members):
            raise DecodeError("a part has other members")
        members.update(later)
    return members
