"""What the authority does when asked: a closed list of operations, each checked before it runs."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from typing import Any

from policyengine.bundles import contexts
from policyengine.errors import PortcullisError, SignatureError
from policyengine.primitives import canonical, merkle
from policyengine.primitives.checkpoints import Checkpoint, sign_checkpoint
from policyengine.primitives.rand import SYSTEM_RANDOM, RandomSource
from policyengine.primitives.signatures import sign
from policyengine.trustgroups.wraps import wrap_key
from tasks.authority.blind import BlindOperations
from tasks.authority.refusals import RefusedError
from tasks.authority.store import (
    KEY_BYTES,
    AuthorityState,
    SignedLog,
    StateError,
    remember_log,
    signed_log,
)

# INVARIANT: a signing key signs nothing but the messages of its purpose. A caller that
# names another context is refused, so a lease key can never vouch for a bundle.
CONTEXTS: Mapping[str, bytes] = {
    "policy": contexts.BUNDLE,
    "notice": contexts.NOTICE,
    "lease": contexts.LEASE,
    "receipt": contexts.RECEIPT,
}

KEY_ID = re.compile(
    r"(?:(?:encoding|tag|key|overlay):[a-z0-9-]{1,64}:[a-z0-9_.-]{1,64}:[0-9]{1,9})\Z"
)
# Attribute and overlay keys leave only sealed to an agent; these two kinds are needed by the
# control plane itself, which encodes under them.
UNWRAPPABLE = ("encoding:", "tag:")
GROUP_KINDS = ("key:", "overlay:")


class Operations:
    """The authority's operations by name, over one state."""

    def __init__(self, state: AuthorityState, random: RandomSource = SYSTEM_RANDOM) -> None:
        self._state = state
        self._random = random
        blind = BlindOperations(state, random)
        self._table: Mapping[str, Callable[..., dict[str, Any]]] = {
            "anchors": self.anchors,
            "sign": self.sign,
            "create_key": self.create_key,
            "unwrap": self.unwrap,
            "wrap_for": self.wrap_for,
            "create_blind_master": blind.create_blind_master,
            "enrol_blind_clients": blind.enrol_blind_clients,
            "share_blind": blind.share_blind,
            "seal_order_keys": blind.seal_order_keys,
            "audit_log": self.audit_log,
            "sign_checkpoint": self.sign_checkpoint,
        }
        self._log_lock = threading.Lock()

    def answer(self, request: object) -> dict[str, Any]:
        """The answer to one decoded request; never raises for what a caller sent."""
        try:
            return {"ok": True, "result": self._call(request)}
        except RefusedError as error:
            return {"ok": False, "error": str(error)}
        except PortcullisError:
            return {"ok": False, "error": "the request does not check out"}
        except StateError as error:
            return {"ok": False, "error": str(error)}

    def _call(self, request: object) -> dict[str, Any]:
        if not isinstance(request, dict):
            raise RefusedError("a request is an object")
        fields = dict(request)
        operation = self._table.get(str(fields.pop("op", "")))
        if operation is None:
            raise RefusedError("unknown operation")
        try:
            return operation(**fields)
        except TypeError as error:
            raise RefusedError("missing, unknown or mistyped field") from error

    def anchors(self) -> dict[str, Any]:
        """The public keys to pin."""
        return self._state.anchors().to_json()

    def sign(self, *, purpose: str, context_b64: str, payload_b64: str) -> dict[str, Any]:
        """A signature by the key of `purpose` over a payload in that purpose's own context."""
        expected = CONTEXTS.get(purpose)
        if expected is None or canonical.unb64(context_b64) != expected:
            raise RefusedError("this purpose does not sign in this context")
        payload = canonical.unb64(payload_b64)
        return {"signature": canonical.b64(sign(self._state.signing[purpose], expected, payload))}

    def create_key(self, *, key_id: str) -> dict[str, Any]:
        """A fresh random key, wrapped; a new epoch's key is never derived from the old one."""
        _check_key_id(key_id)
        fresh = self._random.token(KEY_BYTES)
        return {"wrapped": self._state.wrap(key_id, fresh, self._random)}

    def unwrap(self, *, key_id: str, wrapped: str) -> dict[str, Any]:
        """An encoding or tag key in clear, for the control plane to encode with."""
        _check_key_id(key_id)
        if not key_id.startswith(UNWRAPPABLE):
            raise RefusedError("keys of this kind leave the authority only sealed to an agent")
        return {"key": canonical.b64(self._state.unwrap(key_id, wrapped))}

    def wrap_for(
        self, *, key_id: str, wrapped: str, group: str, epoch: int, recipient: str, audience: str
    ) -> dict[str, Any]:
        """A trust group's key sealed to one agent."""
        _check_key_id(key_id)
        _check_group(key_id, group, epoch)
        wrap = wrap_key(
            group,
            epoch,
            self._state.unwrap(key_id, wrapped),
            recipient=canonical.unb64(recipient),
            audience=audience,
        )
        return {"sealed": canonical.b64(wrap.sealed)}

    def audit_log(self) -> dict[str, Any]:
        """The public key of the audit's checkpoints, and what was signed of the audit last."""
        signed = signed_log(self._state.folder)
        return {
            "public": canonical.b64(self._state.signing["audit"].public),
            "size": signed.size,
            "root": canonical.b64(signed.root),
        }

    def sign_checkpoint(
        self, *, origin: str, size: int, root: str, time: str, proof: list[str]
    ) -> dict[str, Any]:
        """A signed note over a state of the audit that adds to the one that was signed last."""
        # INVARIANT: the audit's key signs nothing but checkpoints, each of which continues the one
        # before: whoever takes the control plane can stop the audit, and not rewrite it.
        checkpoint = Checkpoint(origin, size, canonical.unb64(root), time)
        with self._log_lock:
            before = signed_log(self._state.folder)
            try:
                merkle.verify_consistency(
                    old=before.size,
                    new=size,
                    proof=[canonical.unb64(part) for part in proof],
                    old_root=before.root,
                    new_root=checkpoint.root,
                )
            except SignatureError as error:
                raise RefusedError("this does not continue the audit that was signed") from error
            remember_log(self._state.folder, SignedLog(size, checkpoint.root))
        return {"note": sign_checkpoint(self._state.signing["audit"], checkpoint)}


def _check_key_id(key_id: str) -> None:
    if not isinstance(key_id, str) or not KEY_ID.match(key_id):
        raise RefusedError("not a key id")


def _check_group(key_id: str, group: str, epoch: int) -> None:
    """The id names kind, domain, name and epoch; the wrap must carry the same three."""
    kind, _, name, number = key_id.split(":")
    if not group.startswith(GROUP_KINDS) or group != f"{kind}:{name}" or int(number) != epoch:
        raise RefusedError("the key id names another group or epoch")
