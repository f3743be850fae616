"""Audiences as the control plane knows them: their keys, their domains, what they last said."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

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
        return served([self])[self.address]


def find(address: str) -> Audience | None:
    """The audience of an address, if it exists and registered its keys."""
    return find_all([address]).get(address)


def find_all(addresses: Collection[str]) -> dict[str, Audience]:
    """The audiences of these addresses that exist and registered their keys."""
    names: dict[str, list[str]] = {"agent": [], "client": [], "comparator": []}
    for address in addresses:
        kind, _, name = address.partition(":")
        names.get(kind, []).append(name)
    rows: dict[str, Agent | Principal | Comparator] = {
        **_named("agent", Agent.objects.filter(name__in=names["agent"]).select_related("overlay")),
        **_named("comparator", Comparator.objects.filter(name__in=names["comparator"])),
    }
    clients = Principal.objects.filter(handle__in=names["client"]).select_related("domain")
    rows |= {f"client:{row.handle}": row for row in clients}
    return {address: Audience(address, row) for address, row in rows.items() if row.verify_key}


def _named(kind: str, rows: Iterable[Agent] | Iterable[Comparator]) -> dict[str, Any]:
    return {f"{kind}:{row.name}": row for row in rows}


def served(audiences: Iterable[Audience]) -> dict[str, tuple[Domain, ...]]:
    """Of each address the domains that it may hear of; none once it is banned or revoked."""
    rows = {each.address: each.row for each in audiences}
    agents = [row for row in rows.values() if isinstance(row, Agent)]
    by_agent = serving.domains_of_agents(agents) if agents else {}
    found: dict[str, tuple[Domain, ...]] = {}
    for address, row in rows.items():
        if isinstance(row, Agent):
            found[address] = tuple(by_agent[row.pk])
        elif isinstance(row, Comparator):
            found[address] = tuple(row.domains.order_by("name"))
        else:
            found[address] = (row.domain,) if row.state == Principal.State.ACTIVE else ()
    return found


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


def ensure(domain_id: int, addresses: Collection[str]) -> None:
    """Have such a row of each of these audiences."""
    rows = Recipient.objects.filter(domain_id=domain_id, audience__in=addresses)
    missing = set(addresses) - set(rows.values_list("audience", flat=True))
    Recipient.objects.bulk_create(
        (Recipient(audience=address, domain_id=domain_id) for address in sorted(missing)),
        ignore_conflicts=True,
    )
