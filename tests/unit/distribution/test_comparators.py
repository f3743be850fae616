"""Comparators: registered for domains, given what opens and nothing else, and taken out again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from adminapp.core.errors import Invalid
from adminapp.distribution import services
from adminapp.distribution.models import BlindEpoch, Comparator
from adminapp.identity.models import Domain
from policyengine.bundles.model import ComparatorContent
from policyengine.events import EventTypes, TypeSpec
from policyengine.ope import ComparatorKey, KeyringComparator, Question, RangeKey
from policyengine.primitives.canonical import b64
from tests.support.audiences import Audience, Plane
from tests.unit.distribution.stocks import agent, client, ordered

__all__ = ["ordered"]


@pytest.fixture
def second(settings: Any, request: pytest.FixtureRequest) -> Domain:
    """The news service, with prices that only a comparator can compare."""
    settings.ORDER_SCHEME = "sbm2"
    found = request.getfixturevalue("ordered")
    assert isinstance(found, Domain)
    return found


def comparator(plane: Plane) -> Audience:
    return plane._audience("comparator:beside")


def register(plane: Plane, domain: Domain) -> Audience:
    made = comparator(plane)
    services.register_comparator(
        actor=None,
        name="beside",
        domains=[domain],
        sealing_key=made.sealing.public,
        verify_key=made.signing.public,
    )
    plane.settle()
    return made


def content(made: Audience) -> ComparatorContent:
    found = made.content("stocks")
    assert isinstance(found, ComparatorContent)
    return found


def test_it_opens_what_clients_encrypt_and_agents_get_no_key(plane: Plane, second: Domain) -> None:
    made = register(plane, second)
    (held,) = content(made).ordered
    (own,) = client(plane, "nasdaq").ordered
    key, opens = RangeKey.from_bytes(own.key), ComparatorKey.from_bytes(held.key)
    assert opens == key.comparator_key()
    assert (held.type, held.attribute, held.epoch, held.state) == ("Quote", "price", 1, "current")
    (column,) = agent(plane, "alpha").ordered
    assert column.scheme == "sbm2"
    for secret in (own.key, held.key):
        assert b64(secret) not in str(agent(plane, "alpha").to_json())
    types = EventTypes([TypeSpec.from_json(one) for one in client(plane, "nasdaq").types])
    declared = types.attribute("Quote", "price").type
    made_of = key.client(declared)
    cheap, dear = (made_of.encrypt_event({"price": n}).values[0][1] for n in (3, 30))
    name = key.slot.column(declared)
    asked = [Question(name, dear, (cheap,)), Question(name, cheap, (dear,))]
    first, last = KeyringComparator([opens]).compare(asked)
    assert first > last


def test_it_gets_leases_and_acknowledges(plane: Plane, second: Domain) -> None:
    made = register(plane, second)
    plane.lease_all()
    assert [set(lease.domains) for lease in made.leases] == [{"stocks"}]


def test_where_agents_compare_it_gets_no_key(plane: Plane, ordered: Domain) -> None:
    assert content(register(plane, ordered)).ordered == ()


def test_removed_it_gets_nothing_more_and_new_keys_follow(plane: Plane, second: Domain) -> None:
    made = register(plane, second)
    revision = made.bundles["stocks"].header.revision
    services.remove_comparator(actor=None, name="beside", domains=[second])
    (epoch,) = BlindEpoch.objects.filter(domain=second, number=1)
    assert epoch.due
    plane.settle()
    plane.lease_all()
    assert made.bundles["stocks"].header.revision == revision
    assert made.leases == []


def test_registering_again_changes_nothing_and_other_keys_are_refused(
    plane: Plane, second: Domain
) -> None:
    made = register(plane, second)
    before = Domain.objects.get(pk=second.pk).revision
    for keys, refused in ((made, False), (comparator(plane), True)):
        public = {"sealing_key": keys.sealing.public, "verify_key": keys.signing.public}
        if refused:
            with pytest.raises(Invalid, match="other keys"):
                services.register_comparator(actor=None, name="beside", domains=[second], **public)
        else:
            services.register_comparator(actor=None, name="beside", domains=[second], **public)
    assert Domain.objects.get(pk=second.pk).revision == before
    assert Comparator.objects.count() == 1


def test_the_command_registers_and_removes(plane: Plane, second: Domain, tmp_path: Path) -> None:
    made = comparator(plane)
    keys = {"sealing_key": b64(made.sealing.public), "verify_key": b64(made.signing.public)}
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"name": "beside", **keys}))
    call_command("register_comparator", name="beside", domain=["stocks"], keys=str(path))
    plane.settle()
    assert len(content(made).ordered) == 1
    call_command("register_comparator", name="beside", domain=["stocks"], remove=True)
    assert not Comparator.objects.get().domains.exists()
    with pytest.raises(CommandError, match="there is no domain `nowhere`"):
        call_command("register_comparator", name="beside", domain=["nowhere"], keys=str(path))
