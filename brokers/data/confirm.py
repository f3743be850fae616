"""What clients say of deliveries they are done with, and what they are asked. No I/O."""

from __future__ import annotations

from brokers.data.bench import Effects, Refusal, Workbench
from brokers.data.reasons import CONFIRM, MALFORMED, REVOKED, STALE, UNKNOWN_CLIENT, refuse
from brokers.ports import Outgoing
from policyengine.bundles import (
    Confirmation,
    Reply,
    SignedConfirmation,
    delivery_queue,
    encode_framed,
    open_confirmation,
    seal_reply,
)
from policyengine.errors import RejectedError

_CLOCK_SKEW = 120.0


def confirmed(bench: Workbench, payload: bytes) -> Effects:
    """Take in a client's confirmation.

    Args:
        bench: see `Workbench`.
        payload: the sealed confirmation.

    Raises:
        RejectedError: `malformed`.
    """
    signed = open_confirmation(payload, key=bench.sealing_key, agent=bench.snapshot.agent)
    said = signed.confirmation
    try:
        _judge(bench, signed)
    except RejectedError as error:
        return Effects(refusal=Refusal("confirm", error.reason, said.client))
    freed = 0 if bench.windows is None else bench.windows.confirm(said, bench.now)
    return Effects(counts=(("confirmations", 1), ("confirmed", freed)))


def _judge(bench: Workbench, signed: SignedConfirmation) -> None:
    said: Confirmation = signed.confirmation
    if said.domain != bench.snapshot.domain:
        refuse(MALFORMED, "the confirmation is for another domain")
    client = bench.snapshot.clients.get(said.client)
    if client is None:
        refuse(UNKNOWN_CLIENT, "this agent is not the home of that client")
    signed.verify(client.verify_key)
    if said.client in bench.snapshot.denied:
        refuse(REVOKED, "the client was revoked")
    if not bench.oldest <= said.issued <= bench.now + _CLOCK_SKEW:
        refuse(STALE, "the confirmation was issued too long ago, or in the future")


def question(bench: Workbench, handle: str, name: str) -> tuple[Outgoing, ...]:
    """Ask a client what it still holds of all that was sent to it before.

    The question is a reply of the reason `confirm`, which clients of an earlier release pass
    over; its message is the size of the window, and the domain stands where names stand.

    Args:
        bench: see `Workbench`.
        handle: the client; nothing is asked of one that is not known.
        name: from `Windows.due`.
    """
    client = bench.snapshot.clients.get(handle)
    if client is None or bench.windows is None:
        return ()
    asked = Reply(
        request=name, part=0, ok=True, reason=CONFIRM, message=str(bench.windows.limit),
        dropped=(bench.snapshot.domain,), agent=bench.snapshot.agent,
    )  # fmt: skip
    sealed = seal_reply(
        asked, signing_key=bench.signing_key, recipient=client.sealing_key, handle=handle
    )
    expires = int((bench.now + QUESTION_LIFE) * 1000)
    body = encode_framed("reply", sealed)
    return (Outgoing(delivery_queue(handle), body, expires=expires),)


QUESTION_LIFE = 60.0
"""Seconds after which the broker drops a question that nobody took: another one follows."""
