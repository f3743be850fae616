"""Names of audiences and queues.

Every part of a queue's name is an identifier (`[a-z0-9-]{1,64}`), so that no wildcard,
composite destination or STOMP header can be smuggled in. The STOMP destination is
`/queue/` and the name.
"""

from __future__ import annotations

from typing import Final, Literal, cast, get_args

from policyengine.bundles.limits import AUDIENCE
from policyengine.errors import InputError
from policyengine.primitives.records import IDENTIFIER

AudienceKind = Literal["agent", "client", "comparator"]
REQUESTS_QUEUE: Final = "pc.requests"


def audience(kind: AudienceKind, name: str) -> str:
    """Return the address of an agent, a client or a comparator, for example `agent:alpha`.

    Raises:
        InputError: `invalid` for another kind or a name that is no identifier.
    """
    if kind not in get_args(AudienceKind):
        raise InputError("invalid", f"`{kind}` is no kind of audience", where="kind")
    return f"{kind}:{identifier(name)}"


def split_audience(address: str) -> tuple[AudienceKind, str]:
    """Split an address into its kind and its name.

    Raises:
        InputError: `invalid` for anything that `audience` does not return.
    """
    kind, _, name = AUDIENCE.clean(address, "audience").partition(":")
    return cast(AudienceKind, kind), name


def identifier(name: str, where: str = "name") -> str:
    """Return the name if it is an identifier: 1 to 64 of `a-z`, `0-9` and `-`.

    Raises:
        InputError: `invalid` otherwise.
    """
    return IDENTIFIER.clean(name, where)


def control_queue(address: str) -> str:
    """Return the queue on which an audience receives bundles, notices and leases."""
    kind, name = split_audience(address)
    return f"pc.control.{kind}.{name}"


def publish_queue(agent: str, domain: str) -> str:
    """Return the queue on which a home agent receives its clients' messages."""
    return f"pc.in.{identifier(agent, 'agent')}.{identifier(domain, 'domain')}"


def hop_queue(agent: str, domain: str) -> str:
    """Return the queue on which an agent receives events from other agents."""
    return f"pc.hop.{identifier(agent, 'agent')}.{identifier(domain, 'domain')}"


def delivery_queue(handle: str) -> str:
    """Return the queue on which a client receives deliveries and replies."""
    return f"pc.deliver.{identifier(handle, 'handle')}"


def dead_queue(agent: str) -> str:
    """Return the queue to which an agent moves what it cannot handle."""
    return f"pc.dead.{identifier(agent, 'agent')}"


def backlog_queue(agent: str, domain: str, handle: str) -> str:
    """Return the queue on which an agent keeps what a client has no room for yet."""
    parts = identifier(agent, "agent"), identifier(domain, "domain"), identifier(handle, "handle")
    return "pc.back." + ".".join(parts)


def retry_queue(agent: str, domain: str) -> str:
    """Return the queue to which an operator moves clients' messages for another attempt."""
    return f"pc.again.{identifier(agent, 'agent')}.{identifier(domain, 'domain')}"
