"""Signatures of the online keys: each in its own context, bundles with rising revisions only."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from policyengine.bundles import contexts
from policyengine.primitives import canonical
from policyengine.primitives.signatures import SigningKey, sign
from tasks.authority.answers import Answer
from tasks.authority.describing import (
    audience_of,
    describe_bundle,
    describe_filter_answer,
    describe_payload,
)
from tasks.authority.journal import Journal
from tasks.authority.ledger import SIGNED
from tasks.authority.refusals import RefusedError

# INVARIANT: a signing key signs nothing but the messages of its purpose. A caller that
# names another context is refused, so a lease key can never vouch for a bundle.
CONTEXTS: Final[Mapping[str, tuple[bytes, ...]]] = {
    "policy": (contexts.BUNDLE, contexts.FILTER_ANSWER),
    "lease": (contexts.LEASE,),
    "receipt": (contexts.RECEIPT,),
}

MOST_NOTICES: Final = 100
_MOST_ABOUT: Final = 8
_LONGEST_ABOUT: Final = 600


class SigningOperations:
    """The operation `sign`, over the authority's keys and its journal.

    Args:
        key: the key that the root in force names for a purpose.
        journal: what was signed.
    """

    def __init__(self, key: Callable[[str], SigningKey], journal: Journal) -> None:
        self._key = key
        self._journal = journal
        self._rising = threading.Lock()

    def sign(self, *, purpose: str, context_b64: str, payload_b64: str) -> Answer:
        """A signature by the key of `purpose` over a payload in a context of that purpose."""
        known = CONTEXTS.get(purpose)
        if known is None or (context := canonical.unb64(context_b64)) not in known:
            raise RefusedError("this purpose does not sign in this context")
        payload = canonical.unb64(payload_b64)
        facts, counted = self._examined(purpose, context, payload)
        signature = sign(self._key(purpose), context, payload)
        return Answer({"signature": canonical.b64(signature)}, facts, counted)

    def sign_notices(self, *, payloads_b64: object, about: object) -> Answer:
        """A signature by the notice key for each of a few notices of one revocation, in order.

        The journal has an entry for each, and all of them are written at once. `about` says what
        was revoked: a control plane whose database was restored from before reads there what it
        has to revoke again.
        """
        if not isinstance(payloads_b64, list) or not 0 < len(payloads_b64) <= MOST_NOTICES:
            raise RefusedError(f"notices are signed in lists of 1 to {MOST_NOTICES}")
        told = _checked(about)
        payloads = [canonical.unb64(payload) for payload in payloads_b64]
        entry = {"op": "sign", "purpose": "notice", "about": told}
        facts = [{**entry, **describe_payload(payload)} for payload in payloads]
        key = self._key("notice")
        signatures = [sign(key, contexts.NOTICE, payload) for payload in payloads]
        return Answer({"signatures": [canonical.b64(each) for each in signatures]}, each=facts)

    def signed_revision(self, *, domain: str) -> dict[str, Any]:
        """The highest revision of a domain that was signed for anybody; 0 before the first."""
        if not isinstance(domain, str):
            raise RefusedError("not the name of a domain")
        self._journal.refresh()
        return {"revision": self._journal.ledger.top(domain)}

    def _examined(self, purpose: str, context: bytes, payload: bytes) -> tuple[dict[str, Any], str]:
        if purpose == "lease":
            return {}, f"lease {audience_of(payload)}"
        if context == contexts.FILTER_ANSWER:
            return describe_filter_answer(payload), ""
        if purpose != "policy":
            return describe_payload(payload), ""
        facts = describe_bundle(payload)
        place = facts["domain"], facts["audience"], facts["revision"]
        # INVARIANT: what was signed once is never signed again with another content, nor with an
        # older number: whoever takes the control plane cannot bring an old policy back.
        with self._rising:
            self._journal.ledger.check(*place, facts["form"], facts["content"])
            self._journal.ledger.take(*place, facts["form"], facts["content"])
        return {**facts, "op": SIGNED}, ""


def _checked(about: object) -> dict[str, str]:
    """What may be written down of a revocation: a few short texts.

    Raises:
        RefusedError: it is something else.
    """
    if not isinstance(about, dict) or len(about) > _MOST_ABOUT:
        raise RefusedError("what is kept of a notice are a few short texts")
    pairs = {name: text for name, text in about.items() if isinstance(text, str)}
    if len(pairs) < len(about) or any(len(text) > _LONGEST_ABOUT for text in pairs.values()):
        raise RefusedError("what is kept of a notice are a few short texts")
    return pairs
