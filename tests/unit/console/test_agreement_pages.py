"""The pages of agreements: both sides read the same, and each speaks for itself alone."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from adminapp.agreements import services
from adminapp.agreements.models import Agreement
from adminapp.catalog import services as catalog
from adminapp.identity import services as identity
from adminapp.roles import services as roles
from tests.support.control_plane import World

pytestmark = pytest.mark.django_db
HERE, THERE = "/d/flights/agreements/", "/d/heating/agreements/"


def terms(*attributes: str) -> dict[str, Any]:
    return {
        "roles": [{"role": "engineer", "as": "airline"}],
        "opens": [{"type": "Flight", "action": "subscribe", "attributes": list(attributes)}],
        "subject_attributes": ["carrier"],
        "starts": "2020-01-01T00:00:00Z",
        "ends": "2099-01-01T00:00:00Z",
        "purpose": "to heat the gates in time",
    }


@pytest.fixture
def gates(world: World) -> Agreement:
    """Proposed by the manager of `flights`, who opens departures to engineers of `heating`."""
    rules = [{"appointments": ["engineer"]}]
    roles.create_role(actor=world.stranger, domain=world.heating, name="engineer", rules=rules)
    catalog.create_subject_attribute(
        actor=world.stranger,
        domain=world.heating,
        name="carrier",
        type={"type": "enum", "values": ["AA", "UA"]},
    )
    return services.propose_agreement(
        actor=world.manager,
        provider=world.flights,
        consumer=world.heating,
        name="gates",
        terms=terms("carrier", "origin"),
        note="as we spoke",
    )


def yes(row: Agreement) -> dict[str, Any]:
    row.refresh_from_db()
    last = row.rounds.order_by("-number")[0]
    return {"version": row.version, "number": last.number, "digest": last.digest}


def text(client: Client, place: str) -> str:
    answer = client.get(place)
    assert answer.status_code == 200
    return answer.content.decode()


def test_both_sides_agree_on_what_they_see(gates: Agreement, browsers: dict[str, Client]) -> None:
    ours, theirs = browsers["manager"], browsers["stranger"]
    assert "gates" in text(ours, HERE)
    assert "not agreed" in text(theirs, THERE)
    page = text(theirs, f"{THERE}{gates.pk}/")
    for said in ("carrier, origin", "to heat the gates in time", "as we spoke", "engineer"):
        assert said in page
    assert "Agree to version 1" in page
    assert ours.post(f"{HERE}{gates.pk}/agree/", yes(gates)).status_code == 302
    assert "This side has said yes" in text(ours, f"{HERE}{gates.pk}/")
    gates.refresh_from_db()
    assert gates.state == "proposed"
    theirs.post(f"{THERE}{gates.pk}/agree/", yes(gates))
    gates.refresh_from_db()
    assert gates.state == "accepted"
    done = text(theirs, f"{THERE}{gates.pk}/")
    assert "Agreed on: version 1" in done
    assert f"kind=agreement&amp;agreement={gates.pk}" in done
    assert "Agree to" not in done


def test_people_of_the_other_side_are_its_own_business(
    gates: Agreement, browsers: dict[str, Client]
) -> None:
    browsers["manager"].post(f"{HERE}{gates.pk}/agree/", yes(gates))
    assert "(mona)" in text(browsers["manager"], f"{HERE}{gates.pk}/")
    assert "(mona)" not in text(browsers["stranger"], f"{THERE}{gates.pk}/")


def test_a_yes_is_to_what_was_shown(gates: Agreement, browsers: dict[str, Client]) -> None:
    seen = yes(gates)
    services.counter_agreement(actor=None, agreement=gates, terms=terms("carrier"), side="consumer")
    late = browsers["manager"].post(f"{HERE}{gates.pk}/agree/", seen, follow=True)
    assert "Nothing was changed" in late.content.decode()
    wrong = yes(gates) | {"digest": "0" * 64}
    answer = browsers["manager"].post(f"{HERE}{gates.pk}/agree/", wrong)
    assert (answer.status_code, "not the terms" in answer.content.decode()) == (422, True)
    assert browsers["manager"].post(f"{HERE}{gates.pk}/agree/", {}).status_code == 422
    page = text(browsers["manager"], f"{HERE}{gates.pk}/")
    assert "other terms proposed" in page
    assert "Agree to version 2" in page
    assert not gates.rounds.filter(acceptances__isnull=False).exists()


def test_either_side_says_no(gates: Agreement, browsers: dict[str, Client]) -> None:
    data = {"version": gates.version, "reason": "too much"}
    browsers["stranger"].post(f"{THERE}{gates.pk}/refuse/", data)
    gates.refresh_from_db()
    assert (gates.state, gates.closed_by, gates.reason) == ("rejected", "consumer", "too much")
    page = text(browsers["manager"], f"{HERE}{gates.pk}/")
    assert "too much" in page
    assert "It never held" in page
    assert 'method="post"' not in page.split("<main", 1)[1]


def test_either_side_withdraws(gates: Agreement, browsers: dict[str, Client]) -> None:
    for client, place in ((browsers["manager"], HERE), (browsers["stranger"], THERE)):
        client.post(f"{place}{gates.pk}/agree/", yes(gates))
    gates.refresh_from_db()
    browsers["manager"].post(f"{HERE}{gates.pk}/withdraw/", {"version": 99, "reason": "over"})
    gates.refresh_from_db()
    assert gates.state == "accepted"
    browsers["manager"].post(
        f"{HERE}{gates.pk}/withdraw/", {"version": gates.version, "reason": "over"}
    )
    gates.refresh_from_db()
    assert (gates.state, gates.closed_by) == ("withdrawn", "provider")


def test_only_managers_speak_and_only_for_their_side(
    gates: Agreement, world: World, browsers: dict[str, Client]
) -> None:
    read = text(browsers["auditor"], f"{HERE}{gates.pk}/").split("<main", 1)[1]
    assert 'method="post"' not in read
    for deed in ("agree", "refuse", "withdraw"):
        assert browsers["auditor"].post(f"{HERE}{gates.pk}/{deed}/", yes(gates)).status_code == 403
        # The other side stands under its own domain.
        answer = browsers["stranger"].post(f"{HERE}{gates.pk}/{deed}/", yes(gates))
        assert answer.status_code == 404
        assert browsers["anonymous"].post(f"{HERE}{gates.pk}/{deed}/").status_code == 302
    third = identity.create_domain(actor=world.operator, name="third", title="Third")
    assert browsers["operator"].get(f"/d/{third.name}/agreements/{gates.pk}/").status_code == 404
    gates.refresh_from_db()
    assert gates.state == "proposed"
