"""Receipts: a signed record, that stands alone, of what a revocation did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from policyengine.bundles.contexts import RECEIPT
from policyengine.bundles.sealing import Sign
from policyengine.errors import DecodeError, InputError, RejectedError, SignatureError
from policyengine.primitives.canonical import b64, dumps, unb64
from policyengine.primitives.signatures import verify

FORMAT = "portcullis/receipt/v1"


def sign_receipt(body: Mapping[str, Any], sign: Sign) -> dict[str, Any]:
    """Sign a receipt's body.

    Args:
        body: plain JSON values.
        sign: signs (context, payload) with the receipt key.

    Returns:
        `{"format", "body", "signature"}`, which may be stored and shown as JSON: the
        signature covers the canonical form, however it is printed.

    Raises:
        InputError: `invalid` when the body is not plain JSON.
    """
    payload = dumps(dict(body))
    return {"format": FORMAT, "body": dict(body), "signature": b64(sign(RECEIPT, payload))}


def verify_receipt(doc: object, key: bytes) -> dict[str, Any]:
    """Check a receipt.

    Args:
        doc: as `sign_receipt` returned it, or as read back from JSON.
        key: public Ed25519 key of the authority's receipts, 32 bytes.

    Returns:
        The body.

    Raises:
        RejectedError: `malformed` or `signature`.
    """
    try:
        body, signature, payload = _read(doc)
        verify(key, signature, RECEIPT, payload)
    except (DecodeError, InputError) as error:
        raise RejectedError("malformed", "not a receipt") from error
    except SignatureError as error:
        raise RejectedError("signature", "the receipt's signature does not verify") from error
    return body


def _read(doc: object) -> tuple[dict[str, Any], bytes, bytes]:
    if type(doc) is not dict or set(doc) != {"format", "body", "signature"}:
        raise DecodeError("other members")
    body, signature = doc["body"], doc["signature"]
    if doc["format"] != FORMAT or type(body) is not dict or type(signature) is not str:
        raise DecodeError("another format")
    return body, unb64(signature), dumps(body)
