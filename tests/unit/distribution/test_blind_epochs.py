"""Blind epochs: when one must follow another, and what the old one is worth then."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from adminapp.catalog.models import EventType
from adminapp.distribution import services
from adminapp.distribution.models import BlindEpoch, BlindKey
from adminapp.identity import services as identity
from adminapp.identity.models import Agent, Domain, Principal
from adminapp.policies import services as policies
from adminapp.policies.models import Policy
from adminapp.roles.models import Appointment
from adminapp.roles.services import appoint, end_appointment
from tests.support.audiences import Plane
from tests.support.blind_reading import current, receive
from tests.unit.distribution.stocks import (
    EXCHANGES,
    QUOTE,
    agent,
    client,
    epochs,
    handle,
    home,
    ordered,
    quoted,
    read,
    stocks,
)

__all__ = ["ordered", "stocks"]


def test_a_revoked_readers_share_is_gone_at_once(plane: Plane, stocks: Domain) -> None:
    gone = handle("small-investor")
    services.revoke_principal(
        actor=None, principal=Principal.objects.get(name="small-investor"), reason="unpaid"
    )
    # In the very transaction, before anything is compiled.
    assert not BlindKey.objects.filter(kind="share", name=gone).exists()
    (kept,) = BlindKey.objects.filter(name=gone)
    assert bytes(kept.sealed) == b""


def test_a_revoked_reader_reads_no_more(plane: Plane, stocks: Domain) -> None:
    row = Principal.objects.get(name="small-investor")
    old_home, old = home(plane, row.name), client(plane, row.name)
    last = quoted(plane)
    revocation = services.revoke_principal(actor=None, principal=row, reason="unpaid")
    plane.settle()
    revocation.refresh_from_db()
    assert revocation.state == "complete"
    for name in ("alpha", "beta"):
        assert epochs(agent(plane, name)) == {2: "current"}
        assert row.handle not in str(agent(plane, name).to_json())
    event = quoted(plane)
    assert event.place.epoch == 2
    # Its home can do nothing for it: neither for what was made before nor for new events.
    assert receive(old, agent(plane, "alpha"), last, QUOTE) is None
    assert receive(old, agent(plane, "alpha"), event, QUOTE) is None
    assert receive(old, old_home, event, QUOTE) is None
    assert read(plane, "pension-fund", event) == QUOTE
    # What is left of the old epoch is its number.
    before = BlindEpoch.objects.get(number=1)
    assert (before.state, before.wrapped, before.keys.count()) == ("retired", "", 0)
    assert revocation.receipt["body"]["blind_epochs"] == {"from": 1, "to": 2}


def test_who_loses_a_role_loses_its_keys(plane: Plane, stocks: Domain) -> None:
    old, old_home = client(plane, "small-investor"), home(plane, "small-investor")
    contract = Appointment.objects.get(principal__name="small-investor", name="contract")
    end_appointment(actor=None, appointment=contract, reason="it ran out")
    plane.settle()
    assert epochs(agent(plane, "alpha")) == {2: "current"}
    assert client(plane, "small-investor").blind == ()
    assert handle("small-investor") not in agent(plane, "alpha").blind[0].shares
    event = quoted(plane)
    assert receive(old, old_home, event, QUOTE) is None
    assert read(plane, "pension-fund", event) == QUOTE


def test_who_gains_a_role_reads_without_a_new_epoch(plane: Plane, stocks: Domain) -> None:
    before = client(plane, "pension-fund").blind
    row = Principal.objects.get(name="newswire")
    assert handle("newswire") not in agent(plane, "alpha").blind[0].shares
    appoint(actor=None, principal=row, name="contract")
    plane.settle()
    assert read(plane, "newswire", quoted(plane)) == QUOTE
    assert client(plane, "pension-fund").blind == before
    assert BlindEpoch.objects.count() == 1


def test_a_policy_that_is_narrowed_is_enforced_on_the_next_event(
    plane: Plane, stocks: Domain
) -> None:
    policy = Policy.objects.get(name="quotes for customers")
    policies.update_policy(
        actor=None, policy=policy, data={"expression": 'subject.role == "premium"'}
    )
    plane.settle()
    event = quoted(plane)
    assert read(plane, "pension-fund", event) == QUOTE
    assert not read(plane, "small-investor", event)


def test_each_attribute_has_its_own_readers(plane: Plane, stocks: Domain) -> None:
    policy = Policy.objects.get(name="quotes for customers")
    policies.update_policy(actor=None, policy=policy, data={"attributes": ["sym", "price"]})
    for number, (said, name) in enumerate(
        [
            ('subject.role == "premium"', "volume"),
            ('subject.role == "customer" && event.price < 10', "exchange"),
        ]
    ):
        policies.create_policy(
            actor=None,
            domain=stocks,
            name=f"more {number}",
            action="subscribe",
            event_type=EventType.objects.get(name="Quote"),
            expression=said,
            attributes=[name],
        )
    plane.settle()
    event = quoted(plane)
    assert read(plane, "small-investor", event) == {"sym": "IBM", "price": 12}
    assert read(plane, "pension-fund", event) == {"sym": "IBM", "price": 12, "volume": 300}
    # No blind agent could check a rule about the price: the publisher seals by it.
    cheap = quoted(plane, price=9)
    assert read(plane, "small-investor", cheap) == {
        "sym": "IBM",
        "price": 9,
        "exchange": "NASDAQ",
    }


def test_a_banned_agents_shares_are_worth_nothing_soon(plane: Plane, stocks: Domain) -> None:
    identity.set_agent_state(actor=None, agent=Agent.objects.get(name="beta"), state="banned")
    plane.audiences["agent:beta"].deaf = True
    plane.settle()
    assert epochs(agent(plane, "alpha")) == {2: "current"}
    assert not BlindKey.objects.filter(audience="agent:beta").exists()


def test_an_operator_can_have_keys_follow(plane: Plane, stocks: Domain) -> None:
    for options in ({"domain": "none", "reason": "x"}, {"domain": "stocks", "reason": " "}):
        with pytest.raises(CommandError):
            call_command("rotate_blind_keys", **options)
    call_command("rotate_blind_keys", domain="stocks", reason="a laptop was stolen")
    plane.settle()
    assert epochs(agent(plane, "alpha")) == {2: "current"}
    assert read(plane, "pension-fund", quoted(plane)) == QUOTE


def test_publishers_follow_agents_to_the_next_epoch(plane: Plane, stocks: Domain) -> None:
    """At every moment each agent can do its part for what any publisher makes."""
    call_command("rotate_blind_keys", domain="stocks", reason="a laptop was stolen")
    seen = set()
    for _ in range(300):
        moved = plane.work() + _deliver_one(plane)
        made = {current(client(plane, name).blind).epoch for name in EXCHANGES}
        seen |= made
        for name in ("alpha", "beta"):
            usable = {n for n, state in epochs(agent(plane, name)).items() if state != "staged"}
            assert made <= usable
        if not moved:
            break
    assert seen == {1, 2}


def _deliver_one(plane: Plane) -> int:
    for audience in plane.audiences.values():
        queue = plane.queues[f"pc.control.{audience.address.replace(':', '.')}"]
        if queue:
            for request in audience.take(queue.pop(0)):
                plane.receive(request)
            return 1
    return 0


def test_who_loses_a_key_of_order_starts_another_epoch(plane: Plane, ordered: Domain) -> None:
    old = client(plane, "small-investor").ordered[0].key
    contract = Appointment.objects.get(principal__name="small-investor", name="contract")
    end_appointment(actor=None, appointment=contract, reason="it ran out")
    plane.settle()
    assert client(plane, "small-investor").ordered == ()
    (fresh,) = client(plane, "pension-fund").ordered
    assert fresh.epoch == 2
    assert fresh.key != old
    assert [each.epoch for each in agent(plane, "alpha").ordered] == [2]
