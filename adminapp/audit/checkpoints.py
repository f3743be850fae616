"""Signed checkpoints: the authority vouches for the log as it is, and keeps it from going back."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.utils import timezone

from adminapp.audit import mapping, selectors, tree, witness
from adminapp.audit.models import Checkpoint
from adminapp.audit.promises import LogKey
from adminapp.core.authority import (
    AuthorityClient,
    AuthorityError,
    AuthorityUnavailable,
    get_authority,
)
from policyengine.errors import DecodeError
from policyengine.primitives import merkle
from policyengine.primitives.checkpoints import parse_note


class CheckpointRefused(Exception):
    """The log cannot be signed as it is: somebody must look into it."""


def make_checkpoint(*, authority: AuthorityClient | None = None) -> Checkpoint | None:
    """Have the log signed as it is now; None when nothing was added since the last time.

    Raises:
        CheckpointRefused: it is not what was signed before and something added.
        AuthorityUnavailable: nobody answers; nothing was signed.
    """
    _adopt_witnessed(selectors.state().size)
    state = selectors.state()
    if not state.size or (state.checkpoint is not None and state.checkpoint.size >= state.size):
        return None
    client = authority or get_authority()
    signed = client.audit_log()
    if signed.size > state.size:
        raise CheckpointRefused(
            f"{signed.size} entries of the audit were signed, and there are only {state.size}; "
            "after a restore run `python -m tasks.authority forget-audit` once"
        )
    nodes = tree.Nodes()
    root = merkle.tree_root(state.size, nodes)
    if root.hex() != state.root:
        raise CheckpointRefused("the audit's end does not fit its entries; run verify_audit")
    now = timezone.now()
    proof = merkle.consistency_proof(signed.size, state.size, nodes)
    note = _signed(client, state.size, root, now, proof)
    witness.append(note)
    row, _created = Checkpoint.objects.get_or_create(
        size=state.size, defaults={"root": root.hex(), "at": now, "note": note}
    )
    return row


def _signed(
    client: AuthorityClient, size: int, root: bytes, now: datetime, proof: list[bytes]
) -> str:
    origin = settings.AUDIT_ORIGIN
    try:
        return client.sign_checkpoint(
            origin=origin, size=size, root=root, time=mapping.moment(now), proof=proof
        )
    except AuthorityUnavailable:
        raise
    except AuthorityError as error:
        raise CheckpointRefused(str(error)) from error


def _adopt_witnessed(size: int) -> None:
    """Take over the newest checkpoint that the witness file has and the database lacks.

    Between the file and the database lies a moment in which a process may die.
    """
    note = witness.last()
    try:
        checkpoint = None if note is None else parse_note(note)[0]
    except DecodeError:
        return
    if note is None or checkpoint is None or checkpoint.size > size:
        return
    Checkpoint.objects.get_or_create(
        size=checkpoint.size,
        defaults={
            "root": checkpoint.root.hex(),
            "at": datetime.fromisoformat(checkpoint.time),
            "note": note,
        },
    )


def log_key(authority: AuthorityClient | None = None) -> LogKey:
    """The key that the authority signs checkpoints with; raises AuthorityError."""
    return LogKey(settings.AUDIT_ORIGIN, (authority or get_authority()).audit_log().public)
