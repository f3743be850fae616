"""From an organisation's file to a reader: quotes that no agent on the way can read."""

from __future__ import annotations

from typing import Any

import pytest

from adminapp.catalog.models import EventType
from adminapp.distribution import services
from adminapp.identity.models import Domain, Principal
from adminapp.policies import services as policies
from adminapp.policies.models import Policy
from policyengine.bundles import Delivery
from tests.support.audiences import Plane
from tests.support.pure_agents import client_policy
from tests.support.site_agents import Journey, Site
from tests.unit.distribution.stocks import CUSTOMERS, QUOTE, handle, stocks

__all__ = ["stocks"]


def journey(plane: Plane) -> Journey:
    return Journey(Site(plane, "stocks"), ("alpha", "beta"))


def values(found: dict[str, list[Delivery]]) -> dict[str, list[dict[str, Any]]]:
    names = {row.handle: row.name for row in Principal.objects.all()}
    return {names[who]: [dict(one.attributes) for one in got] for who, got in found.items()}


def test_quotes_reach_customers_over_agents_that_cannot_read_them(
    plane: Plane, stocks: Domain
) -> None:
    site = journey(plane)
    for name in CUSTOMERS:
        effects = site.subscribe(name, "Quote", 'sym == "IBM" && price > 10')
        assert effects.refusal is None
        assert effects.subscribed
    effects, found = site.publish("nasdaq", "Quote", QUOTE)
    assert effects.refusal is None
    assert values(found) == {"small-investor": [QUOTE], "pension-fund": [QUOTE]}
    effects, found = site.publish("nasdaq", "Quote", {**QUOTE, "price": 10})
    assert (effects.refusal, found) == (None, {})
    effects, found = site.publish("nasdaq", "Quote", {**QUOTE, "sym": "ACME"})
    assert (effects.refusal, found) == (None, {})
    assert len(site.seen) >= 3


def test_exchanges_publish_nothing_in_anothers_name(plane: Plane, stocks: Domain) -> None:
    site = journey(plane)
    site.subscribe("pension-fund", "Quote")
    effects, found = site.publish("nasdaq", "Quote", {**QUOTE, "exchange": "NYSE"})
    assert effects.refusal is not None
    assert found == {}
    effects, found = site.publish("nyse", "Quote", {**QUOTE, "exchange": "NYSE"})
    assert effects.refusal is None
    assert list(values(found)) == ["pension-fund"]


def test_a_revoked_customer_reads_no_more(plane: Plane, stocks: Domain) -> None:
    before = journey(plane)
    for name in CUSTOMERS:
        before.subscribe(name, "Quote")
    publisher = handle("nasdaq")
    late = client_policy(before.site, publisher)
    gone = Principal.objects.get(name="small-investor")
    services.revoke_principal(actor=None, principal=gone, reason="unpaid")
    plane.settle()
    after = journey(plane)
    assert after.subscribe("pension-fund", "Quote").refusal is None
    # Its subscription stays with the agent; its rights and its share do not.
    after.agents["alpha"].subscriptions += before.agents["alpha"].subscriptions
    effects, found = after.publish("nasdaq", "Quote", QUOTE)
    assert effects.refusal is None
    assert values(found) == {"pension-fund": [QUOTE]}
    # What was made in the old epoch is refused: nobody has keys of it.
    effects, found = after.publish("nasdaq", "Quote", QUOTE, policy=late)
    assert effects.refusal is not None
    assert found == {}


@pytest.mark.parametrize("kind", ["publish", "subscribe"])
def test_policies_may_ask_for_what_is_hidden(plane: Plane, stocks: Domain, kind: str) -> None:
    """Tags tell of a hidden attribute only what policies ask for, and that they do tell."""
    said = {"publish": "own quotes", "subscribe": "quotes for customers"}[kind]
    row = Policy.objects.get(name=said)
    more = ' && event.sym == "IBM" && has(event.volume)'
    policies.update_policy(actor=None, policy=row, data={"expression": row.expression + more})
    if kind == "subscribe":
        policies.create_policy(
            actor=None, domain=stocks, name="prices", action="subscribe",
            event_type=EventType.objects.get(name="Quote"), expression='subject.role == "premium"',
            attributes=["price"],
        )  # fmt: skip
    plane.settle()
    site = journey(plane)
    for name in CUSTOMERS:
        site.subscribe(name, "Quote")
    effects, found = site.publish("nasdaq", "Quote", QUOTE)
    assert effects.refusal is None
    assert values(found) == {"small-investor": [QUOTE], "pension-fund": [QUOTE]}
    effects, found = site.publish("nasdaq", "Quote", {**QUOTE, "sym": "ACME"})
    if kind == "publish":
        assert effects.refusal is not None
        assert found == {}
    else:
        assert values(found) == {"pension-fund": [{"price": 12}]}
