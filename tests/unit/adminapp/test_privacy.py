"""Classification behind the gate, and splits that can be carried out."""

from __future__ import annotations

from typing import Any

import pytest

from adminapp.catalog import services as catalog
from adminapp.core.errors import Conflict, Invalid
from adminapp.identity import services as identity
from adminapp.privacy import selectors, services
from adminapp.privacy.models import SplitPlan
from tests.support.control_plane import World, attribute


def group(overlay: str, *attributes: str) -> dict[str, Any]:
    return {"overlay": overlay, "attributes": list(attributes)}


def split(world: World, *groups: dict[str, Any], **more: Any) -> SplitPlan:
    return services.set_split(
        actor=world.manager, event_type=world.flight, groups=list(groups), **more
    )


def test_classifying(world: World) -> None:
    row = world.departure.attributes.get(name="delay")
    changed = services.classify_attribute(
        actor=world.manager, attribute=row, pia_class="quasi-identifying", reason="rare delays"
    )
    assert (changed.pia_class, changed.pia_reason, changed.version) == (
        "quasi-identifying",
        "rare delays",
        2,
    )
    with pytest.raises(Conflict):
        services.classify_attribute(
            actor=world.manager, attribute=row, pia_class="confidential", expected_version=1
        )


@pytest.mark.parametrize("pia_class", ["identifying", "confidential"])
def test_the_gate_refuses_what_is_in_clear(pia_class: str, world: World) -> None:
    row = world.flight.attributes.get(name="origin")
    with pytest.raises(Invalid, match="must be encrypted"):
        services.classify_attribute(actor=world.manager, attribute=row, pia_class=pia_class)
    row.refresh_from_db()
    assert row.pia_class == "quasi-identifying"


def test_an_inherited_attribute_is_classified_where_it_is_declared(world: World) -> None:
    repeated = catalog.create_event_type(
        actor=world.manager,
        domain=world.flights,
        name="Quiet",
        parent=world.departure,
        attributes=[attribute("tail", keys=["tail"])],
    ).attributes.get()
    assert (repeated.pia_class, repeated.pia_reason) == ("identifying", "names a plane")
    with pytest.raises(Invalid, match="classify it in `Flight`"):
        services.classify_attribute(
            actor=world.manager, attribute=repeated, pia_class="confidential"
        )
    services.classify_attribute(
        actor=world.manager,
        attribute=world.flight.attributes.get(name="tail"),
        pia_class="confidential",
        reason="worth money",
    )
    repeated.refresh_from_db()
    assert (repeated.pia_class, repeated.pia_reason) == ("confidential", "worth money")


def test_a_class_that_does_not_exist(world: World) -> None:
    row = world.flight.attributes.get(name="origin")
    with pytest.raises(Invalid) as failure:
        services.classify_attribute(actor=world.manager, attribute=row, pia_class="secret")
    assert failure.value.problems[0].pointer == "/pia_class"


def test_a_split(world: World) -> None:
    plan = split(world, group("a", "carrier", "tail"), group("b", "origin"))
    assert selectors.active_splits(world.flights) == {"Flight": plan.groups}
    again = split(world, group("a", "origin"), group("b", "carrier", "tail"), expected_version=1)
    assert (again.pk, again.version) == (plan.pk, 2)
    with pytest.raises(Conflict):
        split(world, group("a", "origin", "carrier", "tail"), expected_version=1)
    split(world, group("a", "carrier", "tail"), group("b", "origin"), active=False)
    assert selectors.active_splits(world.flights) == {}
    services.remove_split(actor=world.manager, split_plan=plan)
    assert not SplitPlan.objects.exists()


@pytest.mark.parametrize(
    ("groups", "pointer", "message"),
    [
        ([], "/groups", "at least one"),
        ([{"overlay": "a"}], "/groups/0", "a group is"),
        ([group("a", "carrier", "tail")], "/groups", "`origin` is quasi-identifying"),
        (
            [group("a", "carrier"), group("b", "origin")],
            "/groups",
            "`tail` is identifying and stands in no group",
        ),
        (
            [group("a", "carrier", "origin", "tail"), group("b", "origin")],
            "/groups/1/attributes/0",
            "more than one",
        ),
        (
            [group("a", "carrier", "orign", "tail"), group("b", "origin")],
            "/groups/0/attributes/1",
            "no known",
        ),
        (
            [group("a", "carrier", "tail"), group("c", "origin")],
            "/groups/1/overlay",
            "no known overlay",
        ),
        (
            [group("a", "carrier", "tail"), group("a", "origin")],
            "/groups/1/overlay",
            "not be separate",
        ),
        ([{"overlay": 1, "attributes": []}], "/groups/0/overlay", "name"),
        ([{"overlay": "a", "attributes": "x"}], "/groups/0/attributes", "list"),
    ],
)
def test_splits_that_do_not_separate(
    groups: list[Any], pointer: str, message: str, world: World
) -> None:
    with pytest.raises(Invalid) as failure:
        split(world, *groups)
    assert failure.value.problems[0].pointer == pointer
    assert message in failure.value.problems[0].message
    assert not SplitPlan.objects.exists()


def test_everybody_needs_a_home_on_every_overlay(world: World) -> None:
    identity.update_principal(
        actor=world.manager, principal=world.airport, data={}, agents=[world.alpha]
    )
    with pytest.raises(Invalid, match="no home agent on overlay `b` for `JFK`"):
        split(world, group("a", "carrier", "tail"), group("b", "origin"))
    identity.create_overlay(actor=world.operator, name="c", title="C")
    with pytest.raises(Invalid, match="overlay `c` has no active agent"):
        split(world, group("a", "carrier", "tail"), group("c", "origin"))


def test_a_split_is_kept_whole_by_changes_of_the_type(world: World) -> None:
    split(world, group("a", "carrier", "tail"), group("b", "origin"))
    carrier = {"name": "carrier", "type": world.flight.attributes.get(name="carrier").type}
    with pytest.raises(Invalid, match="split of `Flight`"):
        catalog.update_event_type(
            actor=world.manager,
            event_type=world.flight,
            data={},
            attributes=[carrier, attribute("tail")],
        )
    delay = world.departure.attributes.get(name="delay")
    with pytest.raises(Invalid, match="`delay` of `Departure` is quasi-identifying and stands in"):
        services.classify_attribute(
            actor=world.manager, attribute=delay, pia_class="quasi-identifying"
        )
    split(world, group("a", "carrier", "tail"), group("b", "origin", "delay"))
    services.classify_attribute(actor=world.manager, attribute=delay, pia_class="quasi-identifying")
