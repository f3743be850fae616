"""A second agent holds what it needs to serve at once, and hears of revocations like the first."""

from __future__ import annotations

from typing import Any

import pytest

from adminapp.distribution.models import Notice
from adminapp.distribution.revocation import revoke_principal
from adminapp.distribution.standing import standing
from adminapp.identity import services as identity
from adminapp.identity.models import Agent, Principal
from brokers.client.policy import ClientPolicy, build_policy
from brokers.data.handle import handle_client_message
from brokers.ports import Outgoing
from tests.support.audiences import Plane
from tests.unit.distribution.test_guests import EVENT, OPENED, Town


@pytest.fixture
def town(plane: Plane) -> Town:
    """Everybody of the police is at home with alpha, and may turn to beta."""
    made = Town(plane)
    made.permit("officers", 'subject.role == "officer"')
    for row in (made.dispatch, made.officer):
        second(row, "beta")
    return made


def second(row: Principal, agent: str) -> None:
    fallbacks = Agent.objects.filter(name=agent)
    identity.update_principal(actor=None, principal=row, data={}, fallbacks=fallbacks)


def policy(town: Town, row: Principal, domain: str = "police") -> ClientPolicy:
    return build_policy(town.plane.audiences[f"client:{row.handle}"].bundles[domain])


def at_the_second(town: Town, values: dict[str, str]) -> dict[str, dict[str, Any]]:
    """What beta delivers when the publisher turns to it."""
    home = policy(town, town.dispatch).fallbacks["a"]
    assert home.agent == "beta"
    effects = handle_client_message(town._bench("beta"), town._publication(values, home))
    assert effects.refusal is None, effects.refusal
    outgoing: list[Outgoing] = list(effects.outgoing)
    return town._opened("beta", outgoing)


def test_clients_know_their_second_agent_and_it_serves_them(town: Town) -> None:
    assert town.received(**EVENT) == {"officer": EVENT}
    held = policy(town, town.officer)
    assert (held.homes["a"].agent, held.fallbacks["a"].agent) == ("alpha", "beta")
    assert at_the_second(town, EVENT) == {"officer": EVENT}
    (seen,) = (one for one in standing().clients if one.handle == town.officer.handle)
    assert seen.served_at("a") == ("alpha", "beta")


def test_guests_have_a_second_agent_in_the_domain_they_visit(town: Town) -> None:
    second(town.chief, "alpha")
    town.agree()
    assert town.received(**EVENT) == {"officer": EVENT, "chief": OPENED}
    held = policy(town, town.chief)
    assert (held.homes["a"].agent, held.fallbacks["a"].agent) == ("beta", "alpha")


def test_a_revocation_reaches_the_second_agent_too(town: Town) -> None:
    town.plane.settle()
    revoke_principal(actor=None, principal=town.officer, reason="left")
    told = Notice.objects.values_list("audience", flat=True)
    assert set(told) == {"agent:alpha", "agent:beta"}
    town.plane.settle()
    assert at_the_second(town, EVENT) == {}


def test_without_its_second_agent_nothing_of_it_is_held_there(town: Town) -> None:
    for row in (town.dispatch, town.officer):
        identity.update_principal(
            actor=None, principal=row, data={}, fallbacks=Agent.objects.none()
        )
    town.plane.settle()
    assert policy(town, town.officer).fallbacks == {}
    assert "police" not in town.plane.audiences["agent:beta"].bundles
