"""An agent that only copies: the baseline that ours is measured against.

It has what any reliable agent needs (transport, one acknowledgement a batch after the outcome is
durable, the window against doubles, the publisher's signature, an answer to the publisher) and no
policy and no sealing.
"""

from __future__ import annotations

import argparse
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from brokers.adapters.brokers_file import BrokersFile
from brokers.adapters.seen import SeenLog
from brokers.adapters.stomp import StompTransport
from brokers.ports import Message, Outgoing, SeenEntry
from policyengine.primitives.signatures import SigningKey, sign, verify

CONTEXT = b"portcullis/benchmark/copy/v1"
KEY = 16
SIGNATURE = 64


def message(key: bytes, payload: bytes, signing: SigningKey) -> bytes:
    """Write a signed message: signature (64 bytes), key (16), payload."""
    return sign(signing, CONTEXT, key + payload) + key + payload


def main(argv: Sequence[str]) -> None:
    """Copy until SIGTERM."""
    parser = argparse.ArgumentParser()
    for name in ("brokers", "overlay", "source", "target", "answers", "verify", "state"):
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args(argv)
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    config = BrokersFile.load(Path(options.brokers)).overlay(options.overlay)
    transport = StompTransport(config, name="copying-agent")
    seen = SeenLog(Path(options.state), seconds=3600)
    transport.subscribe(options.source, prefetch=400, cumulative=True)
    transport.start()
    public = bytes.fromhex(options.verify)
    while not stopping.is_set():
        batch = transport.receive_many(200, 0.2)
        if batch:
            _copy(transport, seen, batch, options, public)
    transport.close()
    seen.close()


def _copy(
    transport: StompTransport,
    seen: SeenLog,
    batch: list[Message],
    options: argparse.Namespace,
    public: bytes,
) -> None:
    now = time.time()
    fresh: dict[bytes, bytes] = {}
    for each in batch:
        signature, rest = each.body[:SIGNATURE], each.body[SIGNATURE:]
        verify(public, signature, CONTEXT, rest)
        if rest[:KEY] not in seen:
            fresh[rest[:KEY]] = each.body
    copies = [Outgoing(options.target, body) for body in fresh.values()]
    answers = [Outgoing(options.answers, key) for key in fresh]
    transport.send_many([*copies, *answers], timeout=30)
    seen.record([SeenEntry(key, int(now)) for key in fresh], now=now)
    transport.ack_many(batch)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
