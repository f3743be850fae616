"""Trust groups: who holds which key, and a new epoch for whoever leaves."""

from __future__ import annotations

import pytest

from adminapp.core.errors import Conflict, Invalid
from adminapp.identity import services as identity
from adminapp.trustgroups import selectors, services
from adminapp.trustgroups.models import KeyEpoch, TrustGroup
from tests.support.control_plane import FakeAuthority, World

State = KeyEpoch.State


def holders(world: World) -> list[str]:
    return [agent.name for agent in selectors.agents_holding(world.tail)]


def epochs() -> list[tuple[str, int, str]]:
    return list(KeyEpoch.objects.values_list("group_ref", "number", "state"))


def test_members_hold_keys(world: World) -> None:
    assert holders(world) == ["alpha"]
    services.create_trust_group(
        actor=world.manager,
        domain=world.flights,
        name="more",
        members=[world.alpha, world.gamma],
        keys=[world.tail],
    )
    assert holders(world) == ["alpha", "gamma"]
    identity.set_agent_state(actor=world.operator, agent=world.gamma, state="banned")
    assert holders(world) == ["alpha"]


def test_missing_keys_are_made_once(world: World, authority: FakeAuthority) -> None:
    before = world.flights.revision
    made = services.ensure_epochs(actor=None, domain=world.flights, authority=authority)
    assert [(row.group_ref, row.number, row.state) for row in made] == [
        ("key:tail", 1, "current"),
        ("overlay:a", 1, "current"),
        ("overlay:b", 1, "current"),
    ]
    assert authority.made == [row.key_id for row in made]
    assert made[0].wrapped == f"wrapped {made[0].key_id}"
    assert services.ensure_epochs(actor=None, domain=world.flights, authority=authority) == []
    assert world.flights.revision == before  # asked for by the compiler itself


def test_hop_keys_go_to_the_overlay_or_to_its_group(world: World) -> None:
    def hop(name: str) -> list[str]:
        return [agent.name for agent in selectors.agents_for(world.flights, name)]

    assert hop("overlay:a") == ["alpha", "beta"]
    services.create_trust_group(
        actor=world.manager,
        domain=world.flights,
        name="hop-a",
        kind="overlay",
        overlay=world.overlay_a,
        members=[world.beta],
    )
    assert hop("overlay:a") == ["beta"]
    assert hop("overlay:b") == ["gamma"]
    assert hop("overlay:none") == hop("key:none") == []
    assert hop("key:tail") == ["alpha"]


def test_who_leaves_reads_nothing_that_comes_after(world: World, authority: FakeAuthority) -> None:
    services.ensure_epochs(actor=None, domain=world.flights, authority=authority)
    group = services.update_trust_group(
        actor=world.manager,
        trust_group=world.group,
        members=[world.alpha, world.beta],
        authority=authority,
    )
    assert KeyEpoch.objects.filter(state=State.STAGED).count() == 0  # who comes needs no new key
    services.update_trust_group(
        actor=world.manager, trust_group=group, members=[world.beta], authority=authority
    )
    assert ("key:tail", 2, "staged") in epochs()
    assert len(epochs()) == 4


def test_leaving_one_of_two_groups_loses_nothing(world: World, authority: FakeAuthority) -> None:
    services.ensure_epochs(actor=None, domain=world.flights, authority=authority)
    services.create_trust_group(
        actor=world.manager,
        domain=world.flights,
        name="more",
        members=[world.alpha],
        keys=[world.tail],
    )
    services.delete_trust_group(actor=world.manager, trust_group=world.group, authority=authority)
    assert KeyEpoch.objects.filter(state=State.STAGED).count() == 0
    services.delete_trust_group(
        actor=world.manager, trust_group=TrustGroup.objects.get(), authority=authority
    )
    assert ("key:tail", 2, "staged") in epochs()


def test_an_epoch_goes_through_its_states(world: World, authority: FakeAuthority) -> None:
    services.ensure_epochs(actor=None, domain=world.flights, authority=authority)

    def stage() -> KeyEpoch:
        return services.stage_epoch(
            actor=world.manager, domain=world.flights, group_ref="key:tail", authority=authority
        )

    second = stage()
    assert stage().pk == second.pk  # one at a time
    services.switch_epoch(actor=None, epoch=second)
    assert [row for row in epochs() if row[0] == "key:tail"] == [
        ("key:tail", 1, "draining"),
        ("key:tail", 2, "current"),
    ]
    with pytest.raises(Conflict):
        services.switch_epoch(actor=None, epoch=second)
    first = KeyEpoch.objects.get(group_ref="key:tail", number=1)
    services.retire_epoch(actor=None, epoch=first)
    with pytest.raises(Conflict):
        services.retire_epoch(actor=None, epoch=second)
    live = selectors.live_epochs(world.flights).filter(group_ref="key:tail")
    assert [row.number for row in live] == [2]
    with pytest.raises(Invalid, match="no key of this domain"):
        services.stage_epoch(
            actor=world.manager, domain=world.flights, group_ref="key:none", authority=authority
        )


def test_groups_are_one_thing_or_the_other(world: World) -> None:
    def create(**fields: object) -> None:
        services.create_trust_group(actor=world.manager, domain=world.flights, name="new", **fields)

    for fields, pointer in (
        ({"overlay": world.overlay_a}, "/overlay"),
        ({"kind": "overlay"}, "/overlay"),
        ({"kind": "overlay", "overlay": world.overlay_a, "keys": [world.tail]}, "/keys"),
        ({"kind": "overlay", "overlay": world.overlay_a, "members": [world.gamma]}, "/members"),
    ):
        with pytest.raises(Invalid) as failure:
            create(**fields)
        assert failure.value.problems[0].pointer == pointer
    assert TrustGroup.objects.count() == 1
