"""Audiences as the control plane knows them: their keys, their domains, what they last said."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from adminapp.distribution import serving
from adminapp.distribution.models import Comparator, Recipient
from adminapp.identity.models import Agent, Domain, Principal
from policyengine.primitives.canonical import unb64


@dataclass(frozen=True)
class Audience:
    """An agent, a client or a comparator whose messages can be checked and answered."""

    address: str
    row: Agent | Principal | Comparator

    @cached_property
    def verify_key(self) -> bytes:
        """The key that its signatures must verify under."""
        return unb64(self.row.verify_key)

    @cached_property
    def sealing_key(self) -> bytes:
        """The key that answers are sealed to."""
        return unb64(self.row.sealing_key)

    @cached_property
    def domains(self) -> tuple[Domain, ...]:
        """The domains it may hear of; none once it is banned or revoked."""
        if isinstance(self.row, Agent):
            return tuple(serving.domains_of_agent(self.row))
        if isinstance(self.row, Comparator):
            return tuple(self.row.domains.order_by("name"))
        return (self.row.domain,) if self.row.state == Principal.State.ACTIVE else ()


def find(address: str) -> Audience | None:
    """The audience of an address, if it exists and registered its keys."""
    kind, _, name = address.partition(":")
    row: Agent | Principal | Comparator | None
    if kind == "agent":
        row = Agent.objects.select_related("overlay").filter(name=name).first()
    elif kind == "comparator":
        row = Comparator.objects.filter(name=name).first()
    else:
        row = Principal.objects.select_related("domain").filter(handle=name).first()
    if kind not in {"agent", "client", "comparator"} or row is None or not row.verify_key:
        return None
    return Audience(address, row)


def sealing_keys(addresses: Collection[str]) -> dict[str, bytes]:
    """The public keys to seal for agents; raises LookupError when one of them is gone."""
    names = [address.removeprefix("agent:") for address in addresses]
    rows = Agent.objects.filter(name__in=names).exclude(sealing_key="")
    found = {f"agent:{row.name}": unb64(row.sealing_key) for row in rows}
    if missing := sorted(set(addresses) - set(found)):
        raise LookupError(f"no agent {missing[0]}")
    return found


def recipient(address: str, domain: Domain) -> Recipient:
    """The row that keeps what this audience said about a domain."""
    found, _ = Recipient.objects.get_or_create(audience=address, domain=domain)
    return found
