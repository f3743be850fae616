"""One thing that a subscriber asked for, and the request that tells an agent."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

from brokers.client.blind import AskedFor
from policyengine.bundles import HomeAgent, SubscribeRequest, seal_subscribe
from policyengine.primitives.signatures import SigningKey


@dataclass(frozen=True)
class Wish:
    """One subscription.

    Args:
        identifier: names it; the same wish always has the same name.
        type: event type; its sub-types are included.
        filter: expression over the type's attributes, or empty.
        domain: whose events; "" for the client's own.
    """

    identifier: str
    type: str
    filter: str
    domain: str = ""

    @classmethod
    def of(cls, event_type: str, text: str, domain: str = "") -> Wish:
        """The wish for a type and a filter, in the client's own domain or another."""
        named = f"{event_type}\n{text}" + (f"\n{domain}" if domain else "")
        digest = blake2b(named.encode(), digest_size=16).hexdigest()
        return cls(f"s-{digest}", event_type, text, domain)


def seal_wish(
    wish: Wish,
    action: str,
    home: HomeAgent,
    *,
    domain: str,
    client: str,
    request: str,
    issued: float,
    signing_key: SigningKey,
    asked: AskedFor | None = None,
    reads: tuple[str, ...] = (),
) -> bytes:
    """A signed request to begin or end a subscription, sealed for one home agent.

    Args:
        wish: what is asked for.
        action: `subscribe` or `unsubscribe`.
        home: who is asked.
        domain: whose events.
        client: its handle.
        request: identifies the request, 32 hexadecimal digits.
        issued: Unix time in seconds.
        signing_key: the client's own.
        asked: the filter as agents get it; None for one that they may read as it is.
        reads: forms of deliveries that the client reads beside the first.
    """
    asked = AskedFor(wish.filter) if asked is None else asked
    return seal_subscribe(
        SubscribeRequest(
            domain=domain,
            client=client,
            request=request,
            subscription=wish.identifier,
            action=action,
            type=wish.type,
            filter=asked.clear,
            issued=int(issued),
            blind=asked.blind,
            ordered=asked.ordered,
            reads=reads,
        ),
        signing_key=signing_key,
        recipient=home.sealing_key,
        agent=home.agent,
    )
