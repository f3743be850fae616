"""Publishing and reading what is hidden from agents, with what bundles hold and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from policyengine.blind import (
    AgentShare,
    BlindDelivery,
    BlindPart,
    BlindPublic,
    ClientKeys,
    Context,
    DeliveryOpener,
    EventSealer,
    RoutedBlind,
    finish_part,
    predecrypt,
)
from policyengine.bundles import BlindClientEpoch, read_policy
from policyengine.bundles.model import AgentContent, ClientContent
from policyengine.events import EventTypes, TypeSpec

CONTEXT = Context("0" * 32, 0)


def publish(
    publisher: ClientContent, home: AgentContent, kind: str, values: Mapping[str, Any]
) -> RoutedBlind:
    """An event as agents have it once the publisher's home has done its part."""
    epoch = current(publisher.blind)
    types = EventTypes([TypeSpec.from_json(spec) for spec in publisher.types])
    schema = {spec.name: spec.type for spec in types.attributes(kind) if spec.blind == "searchable"}
    terms = epoch.read_policies.get(kind, {})
    sealer = EventSealer(BlindPublic.from_bytes(epoch.public), ClientKeys.from_bytes(epoch.keys))
    policies = {name: read_policy(terms[name], values) for name in terms}
    part = sealer.seal(CONTEXT, values, schema, policies)
    share = share_of(home, publisher.handle, epoch.epoch)
    assert share is not None
    sent = BlindPart.from_bytes(part.to_bytes())
    return RoutedBlind.from_bytes(finish_part(share, sent, set(values)).to_bytes())


def receive(
    reader: ClientContent, home: AgentContent, event: RoutedBlind, names: Iterable[str]
) -> dict[str, Any] | None:
    """What a client reads of an event; None where its home cannot do its part.

    Args:
        names: what the home lets it have.
    """
    share = share_of(home, reader.handle, event.place.epoch)
    keys = next((one for one in reader.blind if one.epoch == event.place.epoch), None)
    if share is None or keys is None:
        return None
    delivery = predecrypt(share, event, set(names))
    if delivery is None:
        return {}
    arrived = BlindDelivery.from_bytes(delivery.to_bytes())
    return DeliveryOpener(ClientKeys.from_bytes(keys.keys)).open(arrived, CONTEXT)[0]


def share_of(home: AgentContent, handle: str, number: int) -> AgentShare | None:
    """An agent's share of a client's keys."""
    found = [each.shares.get(handle) for each in home.blind if each.epoch == number]
    return AgentShare.from_bytes(found[0]) if found and found[0] else None


def current(held: Iterable[BlindClientEpoch]) -> BlindClientEpoch:
    """The epoch that events are made in."""
    (found,) = (each for each in held if each.state == "current")
    return found
