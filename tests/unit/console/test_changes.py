"""Changes through the pages: what is kept when they fail, and that nobody overwrites unseen."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from adminapp.distribution.models import Bundle, Recipient
from adminapp.identity import services as identity
from adminapp.policies import services as policies
from adminapp.privacy import services as privacy
from adminapp.privacy.models import SplitPlan
from adminapp.roles import services as roles
from tests.support.control_plane import World

pytestmark = pytest.mark.django_db
Browsers = dict[str, Client]


def form(world: World, **changes: Any) -> dict[str, Any]:
    return {
        "name": "own flights",
        "title": "",
        "action": "subscribe",
        "event_type": "Flight",
        "expression": 'subject.role == "airline"',
        "restrict": "all",
        "enabled": "on",
        "version": world.policy.version,
        "revision": world.flights.revision,
        **changes,
    }


@pytest.fixture(autouse=True)
def _fresh(world: World) -> None:
    world.flights.refresh_from_db()
    world.policy.refresh_from_db()


def test_the_plan_names_who_gains(browsers: Browsers, world: World) -> None:
    page = browsers["manager"].post("/d/flights/policies/p/own flights/plan/", form(world))
    text = page.content.decode()
    assert page.status_code == 200
    assert "United" in text
    assert "always" in text
    world.policy.refresh_from_db()
    assert "event.carrier" in world.policy.expression


def test_an_expression_that_cannot_be_read_is_shown_with_its_place(
    browsers: Browsers, world: World
) -> None:
    data = form(world, expression='subject.role == "airline" && event.carier == "UA"')
    page = browsers["manager"].post("/d/flights/policies/p/own flights/plan/", data)
    text = page.content.decode()
    assert page.status_code == 422
    assert '<mark data-place="29">event.carier</mark>' in text
    assert "event.carrier" in text
    assert "event.carier ==" in text, "what was typed is kept"


def test_the_check_answers_while_typing(browsers: Browsers) -> None:
    def checked(expression: str) -> str:
        page = browsers["manager"].post(
            "/d/flights/policies/check/", {"expression": expression, "event_type": "Flight"}
        )
        assert page.status_code == 200
        return page.content.decode()

    assert "This can be enforced" in checked('subject.role == "airline"')
    assert "role is airline" in checked('subject.role == "airline"')
    assert 'data-place="0"' in checked("nonsense")
    assert "checked as you type" in checked("   ")


def test_applying_changes_the_policy(browsers: Browsers, world: World) -> None:
    page = browsers["manager"].post("/d/flights/policies/p/own flights/apply/", form(world))
    assert page.status_code == 302
    world.policy.refresh_from_db()
    assert world.policy.expression == 'subject.role == "airline"'


def test_a_new_policy_is_made(browsers: Browsers, world: World) -> None:
    data = form(world, name="publishing", action="publish", expression="true", version="")
    page = browsers["manager"].post("/d/flights/policies/new/apply/", data)
    assert page.status_code in {302, 422}
    if page.status_code == 422:
        data["expression"] = "has(event.carrier)"
        page = browsers["manager"].post("/d/flights/policies/new/apply/", data)
    assert page.status_code == 302
    assert world.flights.policies.filter(name="publishing", action="publish").exists()


def test_a_plan_of_another_revision_is_made_again(browsers: Browsers, world: World) -> None:
    data = form(world, revision=world.flights.revision - 1)
    page = browsers["manager"].post("/d/flights/policies/p/own flights/apply/", data)
    assert page.status_code == 409
    assert b"changed since this plan was made" in page.content
    world.policy.refresh_from_db()
    assert "event.carrier" in world.policy.expression


def test_a_stale_policy_is_shown_with_both_changes(browsers: Browsers, world: World) -> None:
    base = form(world)
    policies.update_policy(actor=world.operator, policy=world.policy, data={"title": "Theirs"})
    world.flights.refresh_from_db()
    data = {**base, "title": "Mine", "revision": world.flights.revision}
    page = browsers["manager"].post("/d/flights/policies/p/own flights/apply/", data)
    text = page.content.decode()
    assert page.status_code == 409
    assert "Somebody changed this policy" in text
    assert "Theirs" in text
    assert 'value="Mine"' in text
    world.policy.refresh_from_db()
    assert world.policy.title == "Theirs"
    again = {**data, "version": world.policy.version}
    assert (
        browsers["manager"].post("/d/flights/policies/p/own flights/apply/", again).status_code
        == 302
    )


def test_an_old_version_is_put_back(browsers: Browsers, world: World) -> None:
    before = world.policy.expression
    browsers["manager"].post("/d/flights/policies/p/own flights/apply/", form(world))
    world.policy.refresh_from_db()
    page = browsers["manager"].post(
        "/d/flights/policies/p/own flights/restore/1/", {"version": world.policy.version}
    )
    assert page.status_code == 302
    world.policy.refresh_from_db()
    assert (world.policy.expression, world.policy.version) == (before, 3)


def test_a_policy_is_deleted_only_in_the_state_that_was_seen(
    browsers: Browsers, world: World
) -> None:
    address = "/d/flights/policies/p/own flights/deleted/"
    browsers["manager"].post(address, {"version": world.policy.version + 1})
    assert world.flights.policies.filter(name="own flights").exists()
    browsers["manager"].post(address, {"version": world.policy.version})
    assert not world.flights.policies.filter(name="own flights").exists()


def test_the_gate_speaks_plainly_and_the_choice_is_kept(browsers: Browsers, world: World) -> None:
    origin = world.flight.attributes.get(name="origin")
    page = browsers["manager"].post(
        f"/d/flights/classification/{origin.pk}/",
        {"pia_class": "identifying", "reason": "a guess", "version": origin.version},
        headers={"HX-Request": "true"},
    )
    text = page.content.decode()
    assert page.status_code == 422
    assert "origin" in text
    assert "key" in text
    assert '<option value="identifying" selected>' in text
    origin.refresh_from_db()
    assert origin.pia_class == "quasi-identifying"


def test_a_stale_class_is_shown_as_it_is_now(browsers: Browsers, world: World) -> None:
    origin = world.flight.attributes.get(name="origin")
    privacy.classify_attribute(
        actor=world.operator, attribute=origin, pia_class="non-confidential", reason="theirs"
    )
    page = browsers["manager"].post(
        f"/d/flights/classification/{origin.pk}/",
        {"pia_class": "quasi-identifying", "reason": "mine", "version": origin.version},
        headers={"HX-Request": "true"},
    )
    assert page.status_code == 422
    assert b"Somebody else classified it" in page.content
    assert b"theirs" in page.content


def test_a_split_that_leaves_something_out_is_explained(browsers: Browsers, world: World) -> None:
    page = browsers["manager"].post(
        "/d/flights/splits/Flight/save/", {"overlay-carrier": "a", "overlay-origin": ""}
    )
    assert page.status_code == 422
    assert b"is quasi-identifying and stands in no group" in page.content
    assert not SplitPlan.objects.exists()
    page = browsers["manager"].post(
        "/d/flights/splits/Flight/save/", {"overlay-carrier": "a", "overlay-origin": "b"}
    )
    assert page.status_code == 302
    assert SplitPlan.objects.get().groups == [
        {"overlay": "a", "attributes": ["carrier", "tail"]},
        {"overlay": "b", "attributes": ["origin"]},
    ]


def test_a_stale_split_shows_the_difference(browsers: Browsers, world: World) -> None:
    groups = [
        {"overlay": "a", "attributes": ["carrier", "tail"]},
        {"overlay": "b", "attributes": ["origin"]},
    ]
    privacy.set_split(actor=world.operator, event_type=world.flight, groups=groups)
    page = browsers["manager"].post(
        "/d/flights/splits/Flight/save/",
        {"overlay-carrier": "b", "overlay-origin": "a", "version": 99},
    )
    assert page.status_code == 409
    assert b"overlay b" in page.content
    assert SplitPlan.objects.get().groups == groups


def test_a_principal_is_made_with_its_homes_and_values(browsers: Browsers, world: World) -> None:
    data = {"name": "Delta", "kind": "subscriber", "value-carrier": "DL", "home-a": "beta"}
    page = browsers["manager"].post("/d/flights/principals/new/", data)
    assert page.status_code == 302
    made = world.flights.principals.get(name="Delta")
    assert made.attributes == {"carrier": "DL"}
    assert [home.agent.name for home in made.homes.all()] == ["beta"]


def test_a_value_that_the_model_refuses_is_explained(browsers: Browsers, world: World) -> None:
    data = {"name": "Delta", "kind": "subscriber", "value-carrier": "XX"}
    page = browsers["manager"].post("/d/flights/principals/new/", data)
    assert page.status_code == 422
    assert b"outside the domain of" in page.content
    assert not world.flights.principals.filter(name="Delta").exists()


def test_a_stale_principal_is_not_overwritten(browsers: Browsers, world: World) -> None:
    data = {"name": "United", "kind": "subscriber", "value-carrier": "AA", "version": 99}
    page = browsers["manager"].post("/d/flights/principals/p/United/edit/", data)
    assert page.status_code == 409
    assert b"Somebody changed this principal" in page.content
    world.united.refresh_from_db()
    assert world.united.attributes == {"carrier": "UA"}


def test_revoking_needs_the_name_and_a_reason(browsers: Browsers, world: World) -> None:
    address = "/d/flights/principals/p/United/revoke/"
    wrong = {"version": world.united.version, "reason": "left", "confirm": "united"}
    page = browsers["manager"].post(address, wrong)
    assert page.status_code == 422
    assert b"This is not the name" in page.content
    page = browsers["manager"].post(address, {**wrong, "confirm": "United", "reason": ""})
    assert page.status_code == 422
    assert not world.flights.revocations.exists()
    page = browsers["manager"].post(address, {**wrong, "confirm": "United"})
    made = world.flights.revocations.get()
    assert page["Location"] == f"/d/flights/revocations/{made.uid}/"
    live = browsers["auditor"].get(page["Location"]).content.decode()
    assert "0 of 2" in live
    assert "T0: revoked" in live


def test_revoking_in_a_state_that_was_not_seen_asks_again(browsers: Browsers, world: World) -> None:
    page = browsers["manager"].post(
        "/d/flights/principals/p/United/revoke/",
        {"version": world.united.version + 1, "reason": "left", "confirm": "United"},
    )
    assert page.status_code == 409
    assert b"Nothing was revoked" in page.content
    assert not world.flights.revocations.exists()


def test_the_impact_is_told_before_revoking(browsers: Browsers, world: World) -> None:
    page = browsers["manager"].get("/d/flights/principals/p/United/revoke/").content.decode()
    assert "event.carrier is UA" in page
    assert "licensed" in page
    assert "airline" in page
    assert "alpha, gamma" in page


def test_an_appointment_is_given_and_ended(browsers: Browsers, world: World) -> None:
    address = "/d/flights/principals/p/JFK/"
    page = browsers["manager"].post(f"{address}appoint/", {"name": "licensed"})
    assert page.status_code == 302
    made = world.airport.appointments.get()
    assert b"role airline" in browsers["auditor"].get(address).content
    page = browsers["manager"].post(
        f"{address}appointments/{made.pk}/end/", {"version": made.version}
    )
    assert page.status_code == 302
    assert b"role airline" not in browsers["auditor"].get(address).content


def test_without_the_authority_nothing_is_renewed_and_the_page_says_why(
    browsers: Browsers, world: World
) -> None:
    page = browsers["manager"].post(
        "/d/flights/keys/renew/", {"group_ref": "key:tail"}, follow=True
    )
    assert b"the trusted authority, which makes keys, does not answer" in page.content


def test_keys_of_a_type_are_changed(browsers: Browsers, world: World) -> None:
    address = "/d/flights/event-types/Flight/save/"
    data = {"version": world.flight.version, "title": "Flights", "keys-origin": ["tail"]}
    page = browsers["manager"].post(address, data)
    assert page.status_code == 422, "the tail number is identifying and would lose its key"
    assert b"tail" in page.content
    page = browsers["manager"].post(address, {**data, "keys-tail": ["tail"]})
    assert page.status_code == 422, "a policy in force lets the origin through in clear"
    assert b"own flights" in page.content
    policies.update_policy(actor=world.manager, policy=world.policy, data={"enabled": False})
    page = browsers["manager"].post(address, {**data, "keys-tail": ["tail"]})
    assert page.status_code == 302
    origin = world.flight.attributes.get(name="origin")
    assert [key.name for key in origin.keys.all()] == ["tail"]


@pytest.mark.parametrize("address", ["principals", "policies", "roles", "classification"])
def test_a_long_list_costs_no_more_queries_than_a_short_one(
    browsers: Browsers, world: World, address: str
) -> None:
    def cost() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert browsers["manager"].get(f"/d/flights/{address}/").status_code == 200
        return len(queries)

    cost()  # fills what is kept between requests
    few = cost()
    for number in range(12):
        made = identity.create_principal(
            actor=world.manager,
            domain=world.flights,
            name=f"P{number}",
            kind="subscriber",
            attributes={"carrier": "UA"},
            agents=[world.alpha, world.gamma],
        )
        roles.appoint(actor=world.manager, principal=made, name="licensed")
        policies.create_policy(
            actor=world.manager,
            domain=world.flights,
            name=f"policy {number}",
            action="subscribe",
            event_type="Flight",
            expression='subject.role == "airline"',
        )
    assert cost() == few


def test_the_overview_says_what_waits_for_somebody(browsers: Browsers, world: World) -> None:
    handle = world.united.handle
    world.flights.refresh_from_db()
    for address in (f"client:{handle}", "agent:alpha"):
        Bundle.objects.create(
            audience=address,
            domain=world.flights,
            revision=world.flights.revision,
            digest="d",
            content_hash="",
            size=1,
            message=b"",
            state=Bundle.State.REJECTED,
            reason="signature",
            expires_at=timezone.now(),
        )
    Recipient.objects.create(
        audience="agent:alpha",
        domain=world.flights,
        revision=1,
        state=Recipient.State.REJECTED,
        reason="signature",
        last_seen=timezone.now(),
    )
    page = browsers["auditor"].get("/").content.decode()
    assert "The client of United refused a bundle of flights" in page
    assert "alpha refused a bundle of flights" in page
    assert "its signature does not hold" in page
    assert "gamma is waiting for first contact" in page
    assert "attributes of Flights without a reasoned privacy class" in page
    assert "0 of 2" in page
    assert "heating" not in page.split("<main", 1)[1]
