"""Rendezvous agents: where events of a type and the interest in them meet.

Source: paper 002, section 3.1 (rendezvous nodes by event type); highest random weight
hashing, Thaler and Ravishankar 1998: every agent finds the same ones by itself, and when
an agent comes or goes, only the types that it carries move.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from policyengine.primitives.canonical import pack

REPLICAS: Final = 2
"""How many agents carry each type."""


def rendezvous(
    domain: str, event_type: str, agents: Iterable[str], *, replicas: int = REPLICAS
) -> tuple[str, ...]:
    """Return the agents that carry a type, the first to be asked first.

    Args:
        domain: the domain of the type.
        event_type: its name.
        agents: names of the overlay's agents.
        replicas: how many; all agents where there are fewer.
    """

    def weight(agent: str) -> tuple[bytes, str]:
        packed = pack(b"portcullis/rendezvous/v1", domain.encode(), event_type.encode())
        return sha256(packed + pack(agent.encode())).digest(), agent

    return tuple(sorted(set(agents), key=weight, reverse=True)[:replicas])
