"""A bundle's envelope: content in parts, a signed manifest, sealed for one audience.

    message = pack("portcullis/bundle/v1", "<audience>|<domain>", sealed)
    sealed  = HPKE(pack(header, signature, part, part, ...), info = purpose|audience|domain)

The address stands outside in clear, as it does in the queue's name, so that a bundle
which went astray can be told from a damaged one. It protects nothing: the HPKE info
and the signed header do. The signature covers the header's exact bytes, the header the
digest and size of every part. Verify, then parse; nothing is compressed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from policyengine.bundles.addresses import split_audience
from policyengine.bundles.authority_seals import opened_secrets
from policyengine.bundles.contexts import BUNDLE
from policyengine.bundles.header import BundleHeader, PartRef
from policyengine.bundles.limits import MAX_MESSAGE
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

Content = AgentContent | ClientContent | ComparatorContent

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
# what contents had no place for when the layout was made; written only where there is any of it,
# so that an agent of the release before reads what needs nothing new
_LATER: Final = "later"
_MAX_FIELDS: Final = 2 + 64
# more than address, header, signature, lengths and seal of a bundle ever take
_HEAD_ROOM: Final = 16 * 1024


@dataclass(frozen=True)
class SealedBundle:
    """A bundle ready to be sent.

    Args:
        message: the envelope's bytes.
        digest: SHA-256 of the header's bytes; names the bundle in acknowledgements.
    """

    message: bytes
    digest: str


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

    Raises:
        InputError: `too-large` over 8 MiB; `invalid` when a field is out of range or the
            content is someone else's.
    """
    if _owner(content) != (audience, domain):
        raise InputError("invalid", "the content is not of this audience and domain")
    parts = _write_parts(content)
    if sum(map(len, parts.values())) > MAX_MESSAGE - _HEAD_ROOM:
        raise InputError("too-large", f"the bundle has more than {MAX_MESSAGE} bytes")
    header = BundleHeader(
        domain=domain,
        audience=audience,
        revision=revision,
        previous=previous,
        issued=issued,
        expires=expires,
        root_version=root_version,
        parts=tuple(PartRef(name, sha256(data), len(data)) for name, data in parts.items()),
    )
    head = write_body(header)
    return _seal(head, sign(BUNDLE, head), tuple(parts.values()), header, recipient)


def _seal(
    head: bytes, signature: bytes, parts: tuple[bytes, ...], header: BundleHeader, recipient: bytes
) -> SealedBundle:
    address = _address(header.audience, header.domain)
    sealed = seal_to(recipient, pack(head, signature, *parts), info=BUNDLE + b"|" + address)
    return SealedBundle(pack(BUNDLE, address, sealed), sha256(head))


def open_bundle(
    message: bytes, *, key: SealingKey, audience: str, domain: str, policy_key: bytes
) -> OpenedBundle:
    """Open a bundle and check everything that does not depend on what came before.

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
    if len(message) > MAX_MESSAGE:
        reject("malformed", "the bundle is too large")
    try:
        head, signature, *parts = _open_envelope(message, key, _address(audience, domain))
    except (DecodeError, DecryptionError, ValueError) as error:
        raise RejectedError("malformed", "the bundle does not open") from error
    try:
        verify(policy_key, signature, BUNDLE, head)
    except SignatureError as error:
        raise RejectedError("signature", "the bundle's signature does not verify") from error
    header = read_body(BundleHeader, head)
    if (header.audience, header.domain) != (audience, domain):
        reject("audience", "the bundle is for someone else")
    content = opened_secrets(_read_content(header, parts), key=key, audience=audience)
    return OpenedBundle(header, content, sha256(head))


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


def _read_content(header: BundleHeader, parts: list[bytes]) -> Content:
    form, layout = _FORMS[split_audience(header.audience)[0]]
    # INVARIANT: nothing of a part is parsed before its digest stood in the signed header
    if [(p.sha256, p.size) for p in header.parts] != [(sha256(d), len(d)) for d in parts]:
        reject("malformed", "the parts are not those of the manifest")
    if [part.name for part in header.parts] not in ([*layout], [*layout, _LATER]):
        reject("malformed", "the bundle has other parts")
    try:
        members = _join(layout, parts)
        content = form.from_json(members)
    except DecodeError as error:
        raise RejectedError("malformed", str(error)) from error
    if _owner(content) != (header.audience, header.domain):
        reject("audience", "the content is for someone else")
    return content


def _join(layout: Mapping[str, tuple[str, ...]], parts: list[bytes]) -> dict[str, object]:
    members: dict[str, object] = {}
    for keys, data in zip(layout.values(), parts, strict=False):
        part = loads(data)
        if type(part) is not dict or set(part) != set(keys):
            raise DecodeError("a part has other members")
        members.update(part)
    for data in parts[len(layout) :]:
        later = loads(data)
        if type(later) is not dict or not later or set(later) & set(members):
            raise DecodeError("a part has other members")
        members.update(later)
    return members
