"""What cannot be encoded is refused when it is written, not left out in silence."""

from __future__ import annotations

import pytest

from adminapp.catalog import services as catalog
from adminapp.core.errors import Invalid
from adminapp.distribution import services
from adminapp.distribution.models import EncodingEpoch
from adminapp.identity import services as identity
from adminapp.identity.models import Agent, Domain
from adminapp.policies import services as policies
from adminapp.trustgroups.models import KeyEpoch
from tests.support.audiences import Plane


def declare(domain: Domain, count: int) -> list[str]:
    names = [f"a{number}" for number in range(count)]
    for name in names:
        catalog.create_subject_attribute(actor=None, domain=domain, name=name, type={"type": "int"})
    return names


def ask(domain: Domain, names: list[str]) -> None:
    policies.create_policy(
        actor=None,
        domain=domain,
        name="long",
        action="subscribe",
        event_type="Statistics",
        expression=" && ".join(f"subject.{name} == 1" for name in names),
    )


def test_a_conjunction_beyond_the_largest_epoch_is_refused(heating: Domain) -> None:
    names = declare(heating, 33)
    with pytest.raises(Invalid, match="more than 32 times at once") as caught:
        ask(heating, names)
    assert caught.value.problems[0].kind == "too-large"
    assert not heating.policies.filter(name="long").exists()
    ask(heating, names[:32])


def test_filters_need_twice_the_room_that_tokens_need(heating: Domain) -> None:
    names = declare(heating, 64)
    identity.update_domain(actor=None, domain=heating, data={"encoding": "tokens"})
    heating.refresh_from_db()
    ask(heating, names)


def test_another_encoding_is_a_new_epoch(plane: Plane, compiled_heating: Domain) -> None:
    plane.lease_all()
    identity.update_domain(actor=None, domain=compiled_heating, data={"encoding": "tokens"})
    plane.settle()
    epochs = plane.audiences["agent:alpha"].agent("heating").epochs
    assert [(e.epoch, e.parameters["encoding"]) for e in epochs] == [(2, "tokens")]
    assert EncodingEpoch.objects.get(domain=compiled_heating, number=2).cause == "size"


def test_keys_that_a_banned_agent_held_are_replaced(plane: Plane, compiled_flights: Domain) -> None:
    plane.lease_all()
    identity.set_agent_state(
        actor=None, agent=Agent.objects.get(name="beta"), state=Agent.State.BANNED
    )
    services.reconcile()
    plane.settle()
    states = {
        (epoch.group_ref, epoch.number): epoch.state
        for epoch in KeyEpoch.objects.filter(domain=compiled_flights)
    }
    assert states == {
        ("key:airframe", 1): "retired",
        ("key:airframe", 2): "current",
        ("overlay:a", 1): "retired",
        ("overlay:a", 2): "current",
        ("overlay:b", 1): "current",
    }
    assert services.reconcile()["rekeyed"] == 0
