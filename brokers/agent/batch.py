"""One batch of the agent's loop, and where its messages go."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b

from brokers.agent.queues import Source
from brokers.data.bench import Effects, Workbench
from brokers.data.handle import handle_backlog, handle_client_message
from brokers.data.hops import handle_hop_message
from brokers.ports import Message, Outgoing
from policyengine.bundles import dead_queue

_DEAD_LIFE_MS = 7 * 24 * 3600 * 1000
_KEPT_OF_RUBBISH = 64 * 1024


@dataclass
class Batch:
    """What the messages of one batch cause, collected until it is carried out."""

    messages: list[Message] = field(default_factory=list)
    outgoing: list[Outgoing] = field(default_factory=list)
    # Dead letters of which nothing could be believed: what a full broker refuses is dropped.
    doubtful: list[Outgoing] = field(default_factory=list)
    seen: dict[bytes, int] = field(default_factory=dict)
    effects: list[tuple[Source, Effects]] = field(default_factory=list)
    # Queues of which nothing more may be handled, since acknowledgements are cumulative.
    stopped: dict[str, float] = field(default_factory=dict)
    # Of each domain what its messages were decided with.
    benches: dict[str, Workbench] = field(default_factory=dict)


def dead_letter(
    agent: str, message: Message, reason: str, attempts: int, now: float, *, whole: bool = True
) -> Outgoing:
    """A message that is put aside.

    Args:
        agent: whose dead letters.
        message: what could not be handled.
        reason: one word.
        attempts: how often it was tried.
        now: Unix time in seconds.
        whole: whether all of it is kept.
    """
    headers = {
        "reason": reason,
        "from-queue": message.queue,
        "attempts": str(attempts),
        "bytes": str(len(message.body)),
    }
    body = message.body if whole else message.body[:_KEPT_OF_RUBBISH]
    expires = int(now * 1000) + _DEAD_LIFE_MS
    return Outgoing(dead_queue(agent), body, expires=expires, headers=headers)


def undeliverable(agent: str, message: Outgoing, now: float) -> Outgoing:
    """A message that the broker refuses to take, to be put aside.

    Args:
        agent: whose dead letters.
        message: what was refused.
        now: Unix time in seconds.
    """
    headers = {"reason": "undeliverable", "to-queue": message.queue}
    expires = int(now * 1000) + _DEAD_LIFE_MS
    return Outgoing(dead_queue(agent), message.body, expires=expires, headers=headers)


def handle(bench: Workbench, source: Source, body: bytes) -> Effects:
    """Handle a message of any queue."""
    if source.kind == "backlog":
        return handle_backlog(bench, source.handle, body)
    if source.kind == "hop":
        return handle_hop_message(bench, body)
    return handle_client_message(bench, body)


def attempt_key(message: Message) -> bytes:
    """Names a message for counting its attempts."""
    return blake2b(message.body, digest_size=16).digest()
