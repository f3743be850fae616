"""What the journal says of a request: names, numbers and digests, never a key or a plaintext."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from policyengine.bundles.filterkeys import FilterAnswer
from policyengine.bundles.header import BundleHeader
from policyengine.errors import DecodeError, InputError
from policyengine.primitives import canonical
from policyengine.primitives.hashing import digest
from tasks.authority.refusals import RefusedError

# INVARIANT: only what stands here is ever written down; anything else a request carries is a
# key, a wrapped key, a token of a policy, or nobody's business.
_NAMES: Final = (
    *("purpose", "key_id", "group", "domain", "epoch", "agent", "audience", "scheme", "handle"),
    *("number", "revision", "revocation", "origin", "size", "after", "limit", "event_type"),
    *("name", "kind", "version", "serial", "fingerprint"),
)
_LISTS: Final = ("handles", "filter", "denied")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.:@/+=-]{1,200}\Z")
_MAX_LIST: Final = 1024
# Parts that are sealed anew each time that they are made: their bytes always differ.
_SEALED_ANEW: Final = {"agent": ("keys",)}


def describe(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of a request that may be written down."""
    found: dict[str, Any] = {}
    for name in _NAMES:
        if name in fields and _plain(fields[name]):
            found[name] = fields[name]
    for name in _LISTS:
        if isinstance(fields.get(name), list | tuple):
            found[name] = [each for each in fields[name][:_MAX_LIST] if _plain(each)]
    if isinstance(clients := fields.get("clients"), list):
        handles = [each.get("handle") for each in clients[:_MAX_LIST] if isinstance(each, dict)]
        found["handles"] = [each for each in handles if _plain(each)]
    if isinstance(attributes := fields.get("attributes"), list):
        pairs = [each for each in attributes[:_MAX_LIST] if isinstance(each, list)]
        found["attributes"] = [".".join(map(str, each)) for each in pairs if all(map(_plain, each))]
    return found


def describe_payload(payload: bytes) -> dict[str, Any]:
    """The facts of what is to be signed, and its digest."""
    document = _document(payload)
    known = describe(document) if isinstance(document, dict) else {}
    return {**known, "content": digest(payload)}


def audience_of(payload: bytes) -> str:
    """Whom a lease is for; `?` where it does not say."""
    document = _document(payload)
    found = document.get("audience") if isinstance(document, dict) else None
    return found if isinstance(found, str) and _plain(found) else "?"


def _document(payload: bytes) -> object:
    """What is signed; a message for one audience is signed together with its address."""
    try:
        return canonical.loads(payload)
    except DecodeError:
        pass
    try:
        _, body = canonical.unpack(payload, 2)
        return canonical.loads(body)
    except DecodeError:
        return None


def describe_bundle(payload: bytes) -> dict[str, Any]:
    """Domain, audience, revision, form and content of a bundle's header.

    The form is `whole`, or says from which content a delta starts; the content are the digests
    of its parts, without those that are sealed anew each time.

    Raises:
        RefusedError: it is no header.
    """
    try:
        header = BundleHeader.from_json(canonical.loads(payload))
    except (DecodeError, InputError) as error:
        raise RefusedError("the policy key signs headers of bundles only") from error
    passed = _SEALED_ANEW.get(header.audience.partition(":")[0], ())
    content = [[each.name, each.sha256] for each in header.parts if each.name not in passed]
    return {
        "purpose": "policy",
        "domain": header.domain,
        "audience": header.audience,
        "revision": header.revision,
        "form": f"delta:{header.base}" if header.base else header.form,
        "content": digest(canonical.dumps(content)),
        "header": digest(payload),
    }


def describe_filter_answer(payload: bytes) -> dict[str, Any]:
    """For whom an answer is, of which filter, and whether there is a key in it.

    Raises:
        RefusedError: it is none.
    """
    try:
        address, body = canonical.unpack(payload, 2)
        answer = FilterAnswer.from_json(canonical.loads(body))
    except (DecodeError, InputError) as error:
        raise RefusedError("not an answer about a filter") from error
    if address != answer.audience.encode():
        raise RefusedError("the answer is for somebody else")
    return {
        "purpose": "policy",
        "kind": "filter-key" if answer.granted else "filter-refusal",
        "domain": answer.domain,
        "audience": answer.audience,
        "event_type": answer.type,
        "filter": [name for name in answer.attributes if _plain(name)],
        "content": digest(payload),
    }


def _plain(value: object) -> bool:
    if isinstance(value, str):
        return _PLAIN.match(value) is not None
    return type(value) is int and abs(value) < 2**63
