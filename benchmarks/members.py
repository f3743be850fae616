"""The organisation that revocations and rotations are measured in, made by the services.

One domain whose events have a sealed attribute, a trust group of all agents, a reader at each
agent with a policy for its team, and publishers to be revoked.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

OVERLAY = "a"
DOMAIN = "fleet"
KEY = "place"
TEAMS = 8


def organise(
    keys: Mapping[str, Mapping[str, str]], *, readers: int, publishers: int, lease: int = 30
) -> Any:
    """Register agents with these public keys, then everything else; gives the domain."""
    from adminapp.identity import services as identity
    from adminapp.identity.models import Agent

    overlay = identity.create_overlay(actor=None, name=OVERLAY, title="Overlay")
    for name, public in keys.items():
        identity.register_agent(actor=None, name=name, overlay=overlay, **public)
    agents = list(Agent.objects.order_by("name"))
    domain = identity.create_domain(actor=None, name=DOMAIN, title="Fleet", lease_seconds=lease)
    _model(domain, agents)
    people = [("subscriber", f"reader-{n}", f"team-{n % TEAMS}") for n in range(readers)]
    people += [("publisher", f"meter-{n}", "meters") for n in range(publishers)]
    for place, (kind, name, team) in enumerate(people):
        identity.create_principal(
            actor=None,
            domain=domain,
            name=name,
            kind=kind,
            attributes={"team": team},
            agents=[agents[place % len(agents)]],
        )
    return domain


def _model(domain: Any, agents: list[Any]) -> None:
    from adminapp.catalog import services as catalog
    from adminapp.policies import services as policies
    from adminapp.trustgroups import services as trustgroups

    text = {"type": "string"}
    key = catalog.create_attribute_key(actor=None, domain=domain, name=KEY, title="Place")
    catalog.create_subject_attribute(actor=None, domain=domain, name="team", type=text)
    place = {"name": "place", "type": text, "keys": [KEY], "pia_class": "identifying",
             "pia_reason": "names a home"}  # fmt: skip
    value = {"name": "value", "type": {"type": "int", "min": 0, "max": 1000}}
    catalog.create_event_type(actor=None, domain=domain, name="Reading", attributes=[place, value])
    trustgroups.create_trust_group(
        actor=None, domain=domain, name="homes", members=agents, keys=[key]
    )
    permits = partial(policies.create_policy, actor=None, domain=domain, event_type="Reading")
    permits(name="meters", action="publish", expression='subject.team == "meters"')
    for number in range(TEAMS):
        expression = f'subject.team == "team-{number}" && event.place == "{number}"'
        permits(name=f"readers-{number}", action="subscribe", expression=expression)


def enrol_all(domain: Any) -> list[Any]:
    """Give every principal keys of its own; gives their ends, of `tests.support.audiences`."""
    from adminapp.core.authority import get_authority
    from adminapp.identity import services as identity
    from adminapp.identity.models import Principal
    from tests.support.audiences import Audience

    anchors, found = get_authority().anchors(), []
    for principal in Principal.objects.filter(domain=domain).order_by("pk"):
        made = Audience(f"client:{principal.handle}", anchors)
        identity.register_credentials(
            actor=None,
            principal=principal,
            sealing_key=made.sealing.public,
            verify_key=made.signing.public,
        )
        found.append(made)
    return found
