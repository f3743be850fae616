"""Who holds what since when: memberships, holdings, epochs, rotation and distrust."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction

from adminapp.audit.models import Entry
from adminapp.catalog import services as catalog
from adminapp.core.errors import Forbidden, Invalid
from adminapp.identity import kinds
from adminapp.identity import services as identity
from adminapp.trustgroups import selectors, services
from adminapp.trustgroups.models import HoldingPeriod, KeyEpoch, MembershipPeriod, TrustGroup
from tests.support.control_plane import FakeAuthority, World


def history(group: TrustGroup) -> list[tuple[str, bool, str, str]]:
    return [
        (row.agent.name, row.until is None, row.why, row.ended_why)
        for row in selectors.memberships(group)
    ]


def held(world: World, *, past: bool = False) -> list[tuple[str, int, bool]]:
    found = selectors.holders(world.flights, "key:tail", past=past)
    return [(each.agent.name, each.epoch.number, each.until is None) for each in found]


@pytest.fixture
def made(world: World, authority: FakeAuthority) -> World:
    services.ensure_epochs(actor=None, domain=world.flights, authority=authority)
    return world


def change(world: World, authority: FakeAuthority, *members: str, reason: str = "") -> TrustGroup:
    return services.update_trust_group(
        actor=world.manager,
        trust_group=world.group,
        members=[getattr(world, name) for name in members],
        reason=reason,
        authority=authority,
    )


def test_members_come_and_go_with_their_reasons(made: World, authority: FakeAuthority) -> None:
    assert history(made.group) == [("alpha", True, "the group was made", "")]
    change(made, authority, "alpha", "beta", reason="more hands")
    change(made, authority, "beta", reason="moved")
    change(made, authority, "alpha", "beta")
    assert history(made.group) == [
        ("alpha", False, "the group was made", "moved"),
        ("beta", True, "more hands", ""),
        ("alpha", True, "the group was changed", ""),
    ]
    pk = made.group.pk
    services.delete_trust_group(actor=made.manager, trust_group=made.group, authority=authority)
    kept = MembershipPeriod.objects.filter(group_name="handlers", domain=made.flights)
    assert kept.count() == 3
    assert not kept.open().exists()
    assert not MembershipPeriod.objects.filter(group=pk).exists()
    assert not HoldingPeriod.objects.open().exists()


def test_which_epoch_is_held_since_when(made: World, authority: FakeAuthority) -> None:
    assert held(made) == [("alpha", 1, True)]
    change(made, authority, "beta")
    # Who left keeps what it knew in the history, and never comes to the new epoch.
    assert held(made) == [("beta", 1, True), ("beta", 2, True)]
    assert held(made, past=True) == [("alpha", 1, False), ("beta", 1, True), ("beta", 2, True)]
    second = KeyEpoch.objects.get(group_ref="key:tail", number=2)
    assert (second.state, second.reason, second.current_at) == ("staged", "a member left", None)
    services.switch_epoch(actor=None, epoch=second)
    first = KeyEpoch.objects.get(group_ref="key:tail", number=1)
    services.retire_epoch(actor=None, epoch=first)
    first.refresh_from_db()
    assert first.created <= first.current_at <= first.draining_at <= first.retired_at
    assert held(made) == [("beta", 2, True)]
    gone = selectors.holders(made.flights, "key:tail", past=True)
    assert [(each.agent.name, each.epoch.number, each.ended_why) for each in gone] == [
        ("alpha", 1, "the group was changed"),
        ("beta", 1, "the epoch was retired"),
        ("beta", 2, ""),
    ]
    assert all(each.until is None or each.since <= each.until for each in gone)


def test_a_key_is_lost_with_the_last_group_that_gives_it(
    made: World, authority: FakeAuthority
) -> None:
    second = services.create_trust_group(
        actor=made.manager,
        domain=made.flights,
        name="more",
        members=[made.alpha],
        keys=[made.tail],
    )
    services.delete_trust_group(actor=made.manager, trust_group=second, authority=authority)
    assert HoldingPeriod.objects.open().get().agent == made.alpha
    services.update_trust_group(
        actor=made.manager, trust_group=made.group, keys=[], authority=authority
    )
    assert not HoldingPeriod.objects.open().exists()
    assert history(made.group)[0][1]  # still a member, of a group that gives nothing


def test_a_deleted_key_is_held_by_nobody(made: World) -> None:
    crew = catalog.create_attribute_key(actor=made.manager, domain=made.flights, name="crew")
    services.update_trust_group(actor=made.manager, trust_group=made.group, keys=[made.tail, crew])
    assert HoldingPeriod.objects.open().filter(group_ref="key:crew").exists()
    catalog.delete_attribute_key(actor=made.manager, attribute_key=crew)
    over = HoldingPeriod.objects.get(group_ref="key:crew")
    assert over.until is not None
    assert over.ended_why == "the key was deleted"
    assert HoldingPeriod.objects.open().filter(group_ref="key:tail").exists()


def test_rotation_records_the_next_epoch_at_once(made: World, authority: FakeAuthority) -> None:
    (epoch,) = services.rotate_keys(
        actor=made.manager,
        domain=made.flights,
        group_refs=["key:tail"],
        reason="yearly",
        authority=authority,
    )
    assert (epoch.number, epoch.state, epoch.reason) == (2, "staged", "yearly")
    entry = Entry.objects.order_by("-sequence")[0]
    assert (entry.action, entry.after["reason"]) == ("key-epoch.created", "yearly")
    for refs, reason, error in (
        (["key:tail"], " ", Invalid),
        (["key:none"], "yearly", Invalid),
    ):
        with pytest.raises(error):
            services.rotate_keys(
                actor=made.manager, domain=made.flights, group_refs=refs, reason=reason
            )
    with pytest.raises(Forbidden):
        services.rotate_keys(
            actor=made.auditor, domain=made.flights, group_refs=["key:tail"], reason="x"
        )


def test_a_distrusted_agent_leaves_every_group(made: World, authority: FakeAuthority) -> None:
    hop = services.create_trust_group(
        actor=made.manager,
        domain=made.flights,
        name="hop",
        kind="overlay",
        overlay=made.overlay_a,
        members=[made.alpha, made.beta],
    )
    other = services.create_trust_group(
        actor=made.stranger, domain=made.heating, name="boilers", members=[made.alpha]
    )
    left = services.distrust_agent(
        actor=made.operator, agent=made.alpha, reason="odd traffic", authority=authority
    )
    assert [group.pk for group in left] == [made.group.pk, hop.pk, other.pk]
    assert not made.alpha.trust_groups.exists()
    assert not MembershipPeriod.objects.open().filter(agent=made.alpha).exists()
    assert not HoldingPeriod.objects.open().filter(agent=made.alpha).exists()
    staged = KeyEpoch.objects.filter(domain=made.flights, state="staged")
    assert {(row.group_ref, row.reason) for row in staged} == {
        ("key:tail", "distrusted: odd traffic"),
        ("overlay:a", "distrusted: odd traffic"),
    }
    entry = Entry.objects.get(action="agent.distrusted")
    assert entry.before == {"groups": ["flights/handlers", "flights/hop", "heating/boilers"]}
    assert entry.after == {"groups": [], "reason": "odd traffic"}


def test_who_may_distrust(made: World, authority: FakeAuthority) -> None:
    def distrust(standing: str, **more: object) -> list[TrustGroup]:
        return services.distrust_agent(
            actor=made.user(standing),
            agent=made.alpha,
            reason="odd",
            authority=authority,
            **more,
        )

    with pytest.raises(Forbidden):
        distrust("manager")
    with pytest.raises(Forbidden):
        distrust("stranger", domain=made.flights)
    assert distrust("stranger", domain=made.heating) == []
    assert selectors.agents_holding(made.tail).exists()
    assert [group.pk for group in distrust("manager", domain=made.flights)] == [made.group.pk]


def test_a_child_has_epochs_of_its_own_for_keys_that_it_inherits(
    made: World, authority: FakeAuthority
) -> None:
    child = identity.create_domain(
        actor=made.operator, name="regional", title="Regional", parent=made.flights
    )
    assert "key:tail" in selectors.group_refs(child)
    group = services.create_trust_group(
        actor=made.operator, domain=child, name="own", members=[made.gamma], keys=[made.tail]
    )
    epochs = services.ensure_epochs(actor=None, domain=child, authority=authority)
    assert {row.key_id for row in epochs} >= {"key:regional:tail:1"}
    # Whoever is trusted above is not trusted below by that, nor the other way round.
    assert [agent.name for agent in selectors.agents_holding(made.tail)] == ["alpha"]
    assert [agent.name for agent in selectors.agents_for(child, "key:tail")] == ["gamma"]
    assert [each.agent.name for each in selectors.holders(child, "key:tail")] == ["gamma"]
    document = kinds.kind("trust-group").documents(child)["own"]
    assert document["keys"] == ["tail"]
    services.delete_trust_group(actor=made.operator, trust_group=group, authority=authority)
    again = kinds.kind("trust-group").create(made.operator, child, "own", document)
    assert [key.domain for key in again.keys.all()] == [made.flights]
    with pytest.raises(Invalid):
        services.create_trust_group(
            actor=made.operator, domain=made.heating, name="x", keys=[made.tail]
        )


def test_the_database_keeps_one_open_period(made: World) -> None:
    row = MembershipPeriod.objects.get()
    with pytest.raises(IntegrityError), transaction.atomic():
        MembershipPeriod.objects.create(
            domain=made.flights, group=made.group, group_name="x", agent=row.agent, why="twice"
        )
    with pytest.raises(IntegrityError), transaction.atomic():
        HoldingPeriod.objects.create(
            domain=made.flights, group_ref="key:tail", agent=made.alpha, why="twice"
        )
    before = row.since - timedelta(days=1)
    with pytest.raises(IntegrityError), transaction.atomic():
        MembershipPeriod.objects.filter(pk=row.pk).update(until=before)
    epoch = KeyEpoch.objects.first()
    with pytest.raises(IntegrityError), transaction.atomic():
        KeyEpoch.objects.filter(pk=epoch.pk).update(state="retired")
