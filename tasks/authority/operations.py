"""What the authority does when asked: a closed list of operations, each checked before it runs."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from policyengine.errors import PortcullisError, SignatureError
from policyengine.primitives import canonical, merkle
from policyengine.primitives.checkpoints import Checkpoint, sign_checkpoint
from policyengine.primitives.rand import SYSTEM_RANDOM, RandomSource
from policyengine.trustgroups.wraps import wrap_key
from tasks.authority.answers import Answer
from tasks.authority.blind import BlindOperations
from tasks.authority.describing import describe
from tasks.authority.enrolment import EnrolmentOperations
from tasks.authority.filterkeys import FilterKeyOperations
from tasks.authority.journal import Journal
from tasks.authority.lane import Lane, work_here
from tasks.authority.refusals import RefusedError
from tasks.authority.roots import RootKeeper
from tasks.authority.signing import SigningOperations
from tasks.authority.store import (
    KEY_BYTES,
    AuthorityState,
    SignedLog,
    StateError,
    remember_log,
    signed_log,
)
from tasks.authority.tally import Tally
from tasks.authority.telling import JournalOperations

KEY_ID = re.compile(
    r"(?:(?:encoding|tag|key|overlay|decisions):[a-z0-9-]{1,64}:[a-z0-9_.-]{1,64}:[0-9]{1,9})\Z"
)
BLIND_ID = re.compile(r"blind:[a-z0-9-]{1,64}:master:[0-9]{1,9}\Z")
# Attribute and overlay keys leave only sealed to an agent; these kinds are needed by the
# control plane itself, which encodes under them, or reads agents' decision logs with them.
UNWRAPPABLE = ("encoding:", "tag:", "decisions:")
GROUP_KINDS = ("key:", "overlay:")


# Answers that nobody's rights depend on, or too many to write down each: they are counted.
COUNTED = ("anchors", "root", "audit_log", "signed_revision", "journal_head", "journal_entries")


class Operations:
    """The authority's operations by name, over one state.

    INVARIANT: every answer stands in the journal before it is given, refusals too.
    """

    def __init__(
        self,
        state: AuthorityState,
        random: RandomSource = SYSTEM_RANDOM,
        *,
        now: Callable[[], float] = time.time,
        lane: Lane = work_here,
    ) -> None:
        self._state = state
        self._random = random
        self._roots = RootKeeper(state)
        self._journal = Journal(state.folder, now=now)
        self._tally = Tally(self._journal, now=now)
        blind = BlindOperations(state, random, lane)
        signing = SigningOperations(self._roots.signing, self._journal)
        enrolment = EnrolmentOperations(self._roots.signing, random)
        told = JournalOperations(self._journal)
        self._table: Mapping[str, Callable[..., Answer | dict[str, Any]]] = {
            "anchors": self.anchors,
            "root": self.root,
            "sign": signing.sign,
            "sign_notices": signing.sign_notices,
            "signed_revision": signing.signed_revision,
            "create_key": self.create_key,
            "unwrap": self.unwrap,
            "wrap_for": self.wrap_for,
            "rewrap": self.rewrap,
            "create_blind_master": blind.create_blind_master,
            "enrol_blind_clients": blind.enrol_blind_clients,
            "filter_key": FilterKeyOperations(state, self._journal, lane).filter_key,
            "share_blind": blind.share_blind,
            "seal_order_keys": blind.seal_order_keys,
            "certificate_authority": enrolment.certificate_authority,
            "issue_certificate": enrolment.issue_certificate,
            "audit_log": self.audit_log,
            "sign_checkpoint": self.sign_checkpoint,
            "journal_head": told.head,
            "journal_entries": told.entries,
        }
        self._log_lock = threading.Lock()
        self._remember_audit()

    def answer(self, request: object) -> dict[str, Any]:
        """The answer to one decoded request; never raises for what a caller sent."""
        fields = dict(request) if isinstance(request, dict) else {}
        name = fields.pop("op", None)
        op = name if isinstance(name, str) and name in self._table else "unknown"
        facts = {"op": op, **describe(fields)}
        try:
            found = self._call(op, fields)
            self._record(op, facts, found)
        except (RefusedError, PortcullisError, StateError) as error:
            return self._refuse(facts, error)
        return {"ok": True, "result": found.result}

    def tick(self) -> None:
        """What is due by the clock: counts of the minute that is over go into the journal."""
        self._tally.turn()

    def close(self) -> None:
        """Write down what was counted."""
        self._tally.close()

    def _call(self, op: str, fields: dict[str, Any]) -> Answer:
        operation = self._table.get(op)
        if operation is None:
            raise RefusedError("unknown operation")
        try:
            found = operation(**fields)
        except (TypeError, AttributeError) as error:
            raise RefusedError("missing, unknown or mistyped field") from error
        return found if isinstance(found, Answer) else Answer(found)

    def _record(self, op: str, facts: dict[str, Any], found: Answer) -> None:
        if found.each:
            self._journal.append_all([{**each, "outcome": "done"} for each in found.each])
        elif found.counted or op in COUNTED:
            self._tally.note(found.counted or op)
        else:
            self._journal.append({**facts, **found.facts, "outcome": "done"})

    def _refuse(self, facts: dict[str, Any], error: Exception) -> dict[str, Any]:
        # What an engine's error says may quote what was sent.
        told = (
            "the request does not check out" if isinstance(error, PortcullisError) else str(error)
        )
        try:
            self._journal.append({**facts, "outcome": "refused", "reason": told[:300]})
        except StateError as worse:
            told = str(worse)
        code = error.code if isinstance(error, RefusedError) else ""
        return {"ok": False, "error": told, **({"code": code} if code else {})}

    def anchors(self) -> dict[str, Any]:
        """The public keys of the root in force."""
        return self._roots.root.anchors().to_json()

    def root(self, *, after: int = 0) -> dict[str, Any]:
        """The root in force, and the signed roots that lead there from an older one."""
        return {**self._roots.status(), "roots": self._roots.after(after)}

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

    def rewrap(self, *, key_id: str, wrapped: str) -> dict[str, Any]:
        """The same wrapped key under the newest key-encryption key; nothing leaves in clear."""
        if not isinstance(key_id, str) or not (KEY_ID.match(key_id) or BLIND_ID.match(key_id)):
            raise RefusedError("not a key id")
        return {"wrapped": self._state.rewrap(key_id, wrapped, self._random)}

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
            "public": canonical.b64(self._roots.signing("audit").public),
            "size": signed.size,
            "root": canonical.b64(signed.root),
        }

    def sign_checkpoint(
        self, *, origin: str, size: int, root: str, time: str, proof: list[str]
    ) -> Answer:
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
        note = sign_checkpoint(self._roots.signing("audit"), checkpoint)
        return Answer({"note": note}, {"root": root})

    def _remember_audit(self) -> None:
        """Take over from the journal what a copy of the folder may have missed.

        A memory that cannot be read stays as it is: nothing of the audit is signed over it.
        """
        size, root = self._journal.ledger.audit
        with suppress(StateError):
            if size > signed_log(self._state.folder).size:
                remember_log(self._state.folder, SignedLog(size, canonical.unb64(root)))


def _check_key_id(key_id: str) -> None:
    if not isinstance(key_id, str) or not KEY_ID.match(key_id):
        raise RefusedError("not a key id")


def _check_group(key_id: str, group: str, epoch: int) -> None:
    """The id names kind, domain, name and epoch; the wrap must carry the same three."""
    kind, _, name, number = key_id.split(":")
    if not group.startswith(GROUP_KINDS) or group != f"{kind}:{name}" or int(number) != epoch:
        raise RefusedError("the key id names another group or epoch")
