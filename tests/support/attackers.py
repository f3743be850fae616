"""What agents that put together all they see come to know of events (paper 004, section 2.2).

An attacker holds its own private keys, the keys that its bundles brought, and every frame that its
broker sent to it. Nothing here takes part in the agents' own work.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brokers.adapters.files import Keys
from policyengine.bundles import (
    AgentContent,
    audience,
    decode_framed,
    hop_queue,
    open_carried,
    open_hop,
    open_publication,
    publish_queue,
)
from policyengine.bundles.interests import hop_kind
from policyengine.trustgroups import open_wrap

Knowledge = dict[str, dict[str, Any]]
"""Publication -> attribute -> value, or None for one that its keys open."""


@dataclass(frozen=True)
class Attacker:
    """An agent's keys, what its bundle of a domain brought, and its captured streams."""

    name: str
    keys: Keys
    content: AgentContent
    streams: tuple[Path, ...]

    def knowledge(self) -> Knowledge:
        """All that it can read of the domain's events."""
        known: Knowledge = defaultdict(dict)
        domain = self.content.domain
        for destination, body in (each for path in self.streams for each in messages(path)):
            if destination == f"/queue/{publish_queue(self.name, domain)}":
                kind, payload = decode_framed(body)
                if kind == "publication":
                    part = open_publication(payload, key=self.keys.sealing, agent=self.name).part
                    known[part.publication].update(part.attributes)
            elif destination == f"/queue/{hop_queue(self.name, domain)}":
                self._hop(body, known)
        return known

    def _hop(self, body: bytes, known: Knowledge) -> None:
        held = self._held()
        hop_keys = held.pop(f"overlay:{self.content.overlay}")
        if hop_kind(body) == "carried":
            _, body = open_carried(body, hop_keys=hop_keys)
        if hop_kind(body) != "event":
            return
        signers = {agent.name: agent.verify_key for agent in self.content.agents}
        routed = open_hop(body, hop_keys=hop_keys, verify=signers.__getitem__)
        known[routed.publication].update(routed.clear)
        for name, sealed in routed.sealed.items():
            if any(f"key:{key}" in held for key in sealed):
                known[routed.publication].setdefault(name, None)

    def _held(self) -> dict[str, dict[int, bytes]]:
        found: dict[str, dict[int, bytes]] = defaultdict(dict)
        for wrap in self.content.wraps:
            address = audience("agent", self.name)
            key = open_wrap(wrap, key=self.keys.sealing, audience=address)
            found[wrap.group][wrap.epoch] = key
        return found


def together(attackers: list[Attacker]) -> Knowledge:
    """What they know once each has told the others; parts carry their publication's number."""
    known: Knowledge = defaultdict(dict)
    for attacker in attackers:
        for number, values in attacker.knowledge().items():
            known[number].update(values)
    return known


def messages(path: Path) -> Iterator[tuple[str, bytes]]:
    """Destination and body of every MESSAGE frame of a captured stream."""
    for command, headers, body in _frames(path.read_bytes()):
        if command == "MESSAGE":
            yield headers["destination"], body


def _frames(data: bytes) -> Iterator[tuple[str, Mapping[str, str], bytes]]:
    while True:
        data = data.lstrip(b"\r\n")
        head, blank, rest = data.partition(b"\n\n")
        if not blank:
            return
        command, *lines = head.decode().split("\n")
        headers = dict(line.split(":", 1) for line in lines)
        size = int(headers.get("content-length", rest.find(b"\0")))
        if not 0 <= size < len(rest):
            return  # cut off in the middle of a frame
        yield command, headers, rest[:size]
        data = rest[size + 1 :]


__all__ = ["Attacker", "Knowledge", "messages", "together"]
