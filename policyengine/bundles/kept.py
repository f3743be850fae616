"""A content as its audience keeps it over a restart, when no one message holds all of it.

    kept   = pack("portcullis/kept/v1", "<audience>|<domain>", sealed)
    sealed = HPKE(pack(header, signature, content), info = purpose|audience|domain)

A bundle that came whole in one message is kept as it came. Of a delta, and of a bundle in chunks,
the header (which names the content's digest) is kept with the content, sealed to the audience's
own key. So the authority's signature vouches for what is read after a restart, whichever way it
came, and one file is always enough.
"""

from __future__ import annotations

from policyengine.bundles.addresses import split_audience
from policyengine.bundles.contexts import KEPT
from policyengine.bundles.entries import Content, take_apart
from policyengine.bundles.envelope import CONTENT_FORMS, check_head, open_manifest, read_whole
from policyengine.bundles.header import Manifest
from policyengine.bundles.limits import MAX_BUNDLE
from policyengine.bundles.sealing import reject
from policyengine.errors import DecodeError, DecryptionError, RejectedError
from policyengine.primitives.canonical import dumps, loads, pack, unpack
from policyengine.primitives.hpke import SealingKey, open_sealed, seal_to


def keep(manifest: Manifest, content: Content, *, key: SealingKey) -> bytes:
    """Seal a content that came by a delta or in chunks to its audience's own key.

    Args:
        manifest: of the bundle; its header names the content's digest.
        content: what is in force once it is applied, with keys as the authority sealed them.
        key: the audience's own key.
    """
    address = _address(manifest.header.audience, manifest.header.domain)
    inner = pack(manifest.head, manifest.signature, dumps(content.to_json()))
    return pack(KEPT, address, seal_to(key.public, inner, info=KEPT + b"|" + address))


def open_kept(
    data: bytes, *, key: SealingKey, audience: str, domain: str, policy_key: bytes
) -> tuple[Manifest, Content]:
    """Open what was kept: what `keep` made, or a bundle as it came.

    Args:
        data: the bytes kept.
        key: the audience's own key.
        audience: who opens it.
        domain: the domain that it must be of.
        policy_key: pinned public Ed25519 key of the authority, 32 bytes.

    Returns:
        The bundle's manifest, and the content with keys as the authority sealed them.

    Raises:
        RejectedError: `audience`, `signature` or `malformed`.
    """
    if not data.startswith(pack(KEPT)):
        manifest = open_manifest(
            data, key=key, audience=audience, domain=domain, policy_key=policy_key
        )
        return manifest, read_whole(manifest)
    try:
        _, address, sealed = unpack(data, 3)
        inner = open_sealed(key, sealed, info=KEPT + b"|" + _address(audience, domain))
        head, signature, written = unpack(inner, 3)
    except (DecodeError, DecryptionError) as error:
        raise RejectedError("malformed", "what was kept does not open") from error
    if address != _address(audience, domain):
        reject("malformed", "what was kept does not open")
    manifest = check_head(head, signature, audience=audience, domain=domain, policy_key=policy_key)
    form = CONTENT_FORMS[split_audience(audience)[0]]
    try:
        content = form.from_json(loads(written, max_bytes=MAX_BUNDLE))
    except DecodeError as error:
        raise RejectedError("malformed", str(error)) from error
    # INVARIANT: what is put into force after a restart is what the authority signed for.
    if take_apart(content).digest != manifest.header.content:
        reject("malformed", "what was kept is not what was signed")
    return manifest, content


def _address(audience: str, domain: str) -> bytes:
    return f"{audience}|{domain}".encode()
