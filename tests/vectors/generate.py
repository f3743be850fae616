"""Write the golden vectors with the product's code, from fixed keys.

    python -m tests.vectors.generate > tests/vectors/protocol.json

HPKE draws an ephemeral key of its own, so that no two sealed messages are alike. The
product makes each message; its inside, which is determined, is then sealed once more by
the independent implementation with a fixed ephemeral key, and that is the vector.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from policyengine.anonset.tags import tag
from policyengine.bundles import (
    contexts,
    open_bundle,
    seal_delivery,
    seal_lease,
    seal_notice,
    seal_publication,
    seal_reply,
    seal_subscribe,
    sign_receipt,
)
from policyengine.primitives import (
    SealingKey,
    SigningKey,
    aead,
    derive,
    dumps,
    open_sealed,
    pack,
    prf,
    sign,
    unpack,
)
from tests.support import bundle_samples as samples
from tests.vectors import hpke_reference

KEY = bytes(range(32))
EPHEMERAL = bytes(range(32, 64))
WRAP_INFO = pack(b"portcullis/wrap/v1", b"key:tail", (3).to_bytes(8, "big"), b"agent:alpha")

CANONICAL: list[Any] = [
    None,
    [True, False, 0, -7, 2**63, 1.0, 0.1, 1e22, 1e-7, -0.0],
    {"b": [], "a": {"z": {}, "": "empty"}},
    {"text": 'quote " back \\ slash / line \n tab \t bell \x07 ä 漢 😀 \u2028'},
    {"\ue000": "private use before", "😀": "an astral character"},
]


def resealed(key: SealingKey, message: bytes, info: bytes) -> bytes:
    """Seal the inside of a message again, with a fixed ephemeral key."""
    inner = open_sealed(key, message, info=info)
    return b"\x01" + hpke_reference.seal(key.public, inner, info, EPHEMERAL)


def aead_vector(plaintext: bytes, aad: bytes) -> dict[str, Any]:
    """One sealed value under a fixed nonce."""
    nonce = bytes(range(12))
    return {
        "key": KEY.hex(),
        "nonce": nonce.hex(),
        "plaintext": plaintext.hex(),
        "aad": aad.hex(),
        "sealed": aead._seal_with_nonce(KEY, plaintext, aad=aad, nonce=nonce).hex(),
    }


def signature_vector(context: bytes, payload: bytes) -> dict[str, Any]:
    """One signature."""
    key = SigningKey(KEY)
    return {
        "private": KEY.hex(),
        "public": key.public.hex(),
        "context": context.hex(),
        "payload": payload.hex(),
        "signature": sign(key, context, payload).hex(),
    }


def prf_vector(parts: list[bytes], size: int) -> dict[str, Any]:
    """One PRF output."""
    return {
        "key": KEY.hex(),
        "parts": [part.hex() for part in parts],
        "size": size,
        "output": prf(KEY, *parts, size=size).hex(),
    }


def kdf_vector(info: bytes, size: int) -> dict[str, Any]:
    """One derived key."""
    output = derive(KEY, info=info, size=size).hex()
    return {"key": KEY.hex(), "info": info.hex(), "size": size, "output": output}


def wrap() -> Any:
    """The samples' key wrap under the fixed ephemeral key."""
    sealed = resealed(samples.sealing_key("alpha"), samples.WRAP.sealed, WRAP_INFO)
    return type(samples.WRAP)(samples.WRAP.group, samples.WRAP.epoch, sealed)


def wrap_vector() -> dict[str, Any]:
    """One key wrap."""
    made = wrap()
    return {
        "group": made.group,
        "epoch": made.epoch,
        "audience": "agent:alpha",
        "recipient_private": samples.sealing_key("alpha").private.hex(),
        "key": (b"k" * 32).hex(),
        "sealed": made.sealed.hex(),
    }


def bundle_vector(audience: str, key: SealingKey, content: Any) -> dict[str, Any]:
    """One bundle."""
    sealed = samples.bundle(content)
    info = contexts.BUNDLE + f"|{audience}|{content.domain}".encode()
    purpose, address, message = unpack(sealed.message, 3)
    fixed = pack(purpose, address, resealed(key, message, info))
    policy = samples.AUTHORITY.public
    opened = open_bundle(
        fixed, key=key, audience=audience, domain=content.domain, policy_key=policy
    )
    header = dumps(opened.header.to_json())
    return {
        "audience": audience,
        "domain": content.domain,
        "recipient_private": key.private.hex(),
        "policy_public": policy.hex(),
        "header": header.hex(),
        "signature": sign(samples.AUTHORITY, contexts.BUNDLE, header).hex(),
        "digest": sealed.digest,
        "content": content.to_json(),
        "message": fixed.hex(),
    }


def message_vector(
    purpose: bytes, address: str, record: Any, signer: str, seal: Callable[[Any], bytes]
) -> dict[str, Any]:
    """One signed and sealed message; authority's messages name no signer."""
    name = address.removeprefix("agent:")
    key = samples.sealing_key(name)
    return {
        "purpose": purpose.decode(),
        "address": address,
        "signer": signer,
        "signer_public": samples.signing_key(signer or "authority").public.hex(),
        "recipient_private": key.private.hex(),
        "body": record.to_json(),
        "message": resealed(key, seal(record), purpose + b"|" + address.encode()).hex(),
    }


def message_vectors() -> list[dict[str, Any]]:
    """One of each signed and sealed message."""
    alpha, client = samples.sealing_key("alpha").public, samples.sealing_key(samples.HANDLE).public
    by_authority = {"sign": samples.signer("authority"), "recipient": alpha}
    by_client = {
        "signing_key": samples.signing_key(samples.HANDLE),
        "recipient": alpha,
        "agent": "alpha",
    }
    by_agent = {
        "signing_key": samples.signing_key("alpha"),
        "recipient": client,
        "handle": samples.HANDLE,
    }
    table: list[tuple[bytes, str, Any, str, Any, dict[str, Any]]] = [
        (contexts.NOTICE, "agent:alpha", samples.notice(), "", seal_notice, by_authority),
        (
            contexts.NOTICE,
            "agent:alpha",
            samples.notice_with_floors(),
            "",
            seal_notice,
            by_authority,
        ),
        (contexts.LEASE, "agent:alpha", samples.lease(), "", seal_lease, by_authority),
        (
            contexts.PUBLICATION,
            "alpha",
            samples.publication(),
            samples.HANDLE,
            seal_publication,
            by_client,
        ),
        (
            contexts.SUBSCRIBE,
            "alpha",
            samples.subscribe_request(),
            samples.HANDLE,
            seal_subscribe,
            by_client,
        ),
        (contexts.DELIVERY, samples.HANDLE, samples.delivery(), "alpha", seal_delivery, by_agent),
        (contexts.REPLY, samples.HANDLE, samples.reply(), "alpha", seal_reply, by_agent),
    ]
    return [
        message_vector(purpose, address, record, signer, lambda r, s=seal, a=args: s(r, **a))
        for purpose, address, record, signer, seal, args in table
    ]


def generate() -> dict[str, list[dict[str, Any]]]:
    """Make all vectors."""
    receipts = [{"revocation": "r-1", "at": 1.5}, samples.receipt()]
    fields = ([], [b""], [b"a", b"bc"], [b"ab", b"c"])
    return {
        "canonical": [{"value": value, "bytes": dumps(value).hex()} for value in CANONICAL],
        "pack": [
            {"fields": [item.hex() for item in items], "bytes": pack(*items).hex()}
            for items in fields
        ],
        "prf": [prf_vector([b"a", b"bc"], 32), prf_vector([b"ab", b"c"], 32), prf_vector([], 64)],
        "tags": [
            {"key": KEY.hex(), "token": token, "tag": tag(KEY, token).hex()}
            for token in ("carrier==UA", "has(carrier)", "straße==Grün")
        ],
        "kdf": [kdf_vector(b"", 32), kdf_vector(b"purpose", 80)],
        "aead": [aead_vector(b"", b""), aead_vector(b"secret", b"row 1")],
        "signatures": [signature_vector(b"", b""), signature_vector(contexts.BUNDLE, b"payload")],
        "wraps": [wrap_vector()],
        "bundles": [
            bundle_vector(
                "agent:alpha",
                samples.sealing_key("alpha"),
                samples.agent_content(wraps=(wrap(),)),
            ),
            bundle_vector(
                samples.CLIENT, samples.sealing_key(samples.HANDLE), samples.client_content()
            ),
        ],
        "messages": message_vectors(),
        "receipts": [
            {
                "public": samples.AUTHORITY.public.hex(),
                "receipt": sign_receipt(body, samples.signer("authority")),
            }
            for body in receipts
        ],
    }


def text() -> str:
    """Return the vectors as they stand in the file."""
    return json.dumps(generate(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
