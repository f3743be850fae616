"""Who is who in a bundle: agents, clients, and the keys that speak for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from policyengine.primitives.records import IDENTIFIER, KEY, UINT, Choice, Record
from policyengine.trustgroups.epochs import STATES


@dataclass(frozen=True)
class AgentRef(Record):
    """A broker agent of the overlay.

    Args:
        name: the agent.
        overlay: the overlay that it serves.
        sealing_key: public X25519 key, 32 bytes.
        verify_key: public Ed25519 key, 32 bytes.
    """

    name: Annotated[str, IDENTIFIER]
    overlay: Annotated[str, IDENTIFIER]
    sealing_key: Annotated[bytes, KEY]
    verify_key: Annotated[bytes, KEY]


@dataclass(frozen=True)
class ClientRef(Record):
    """A publisher or subscriber whose home is this agent.

    Args:
        handle: the client's pseudonym.
        sealing_key: public X25519 key, 32 bytes.
        verify_key: public Ed25519 key, 32 bytes.
    """

    handle: Annotated[str, IDENTIFIER]
    sealing_key: Annotated[bytes, KEY]
    verify_key: Annotated[bytes, KEY]


@dataclass(frozen=True)
class HomeAgent(Record):
    """A client's home agent on one overlay.

    Args:
        agent: the agent's name.
        overlay: the overlay that it serves.
        sealing_key: public X25519 key, 32 bytes.
        verify_key: public Ed25519 key, 32 bytes.
    """

    agent: Annotated[str, IDENTIFIER]
    overlay: Annotated[str, IDENTIFIER]
    sealing_key: Annotated[bytes, KEY]
    verify_key: Annotated[bytes, KEY]


@dataclass(frozen=True)
class TagKey(Record):
    """The key of the routing tags of one overlay in one encoding epoch.

    Args:
        overlay: the overlay.
        epoch: number of the encoding epoch.
        state: the epoch's state.
        key: 32 bytes, secret from brokers and agents; never shown by `repr`.
    """

    overlay: Annotated[str, IDENTIFIER]
    epoch: Annotated[int, UINT]
    state: Annotated[str, Choice(STATES)]
    key: Annotated[bytes, KEY] = field(repr=False)
