"""Who may appoint, for how long; appointments that begin, lapse and end, and what that records."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from adminapp.audit.models import Entry
from adminapp.core.errors import Forbidden, InUse, Invalid
from adminapp.identity import kinds
from adminapp.identity import services as identity
from adminapp.identity.models import Principal, User
from adminapp.roles import lapsing, mapping, selectors, services
from adminapp.roles.models import Appointment
from tests.support.control_plane import World

HOUR = timedelta(hours=1)


def appoint(world: World, principal: Principal, name: str, *values: Any, **more: Any) -> Any:
    return services.appoint(
        actor=world.manager, principal=principal, name=name, parameters=values, **more
    )


@pytest.fixture
def chiefs(world: World) -> World:
    """A chief of a station may give badges of it, for a day, while being one."""
    who = {"actor": world.manager, "domain": world.flights}
    services.create_role(
        **who,
        name="chief",
        parameters=["station"],
        rules=[{"role": "chief(s)", "appointments": ["heads(s)"]}],
    )
    services.create_appointment_rule(
        **who,
        name="badge",
        parameters=[{"name": "number", "type": {"type": "int"}}, "station"],
        by=["chief( station )"],
        longest=86_400,
        lapses_with_issuer=True,
    )
    appoint(world, world.airport, "heads", "West")
    return world


def badge(world: World, *values: Any, by: Principal | None, hours: int = 8, **more: Any) -> Any:
    begin = more.pop("starts", timezone.now())
    return appoint(
        world,
        world.united,
        "badge",
        *values,
        issued_by=by,
        starts=begin,
        ends=begin + hours * HOUR,
        **more,
    )


def test_a_chief_appoints_within_the_own_station(chiefs: World) -> None:
    world = chiefs
    given = badge(world, 7, "West", by=world.airport, reason="first day")
    assert (given.atom, given.number, given.issued_by) == ("badge(7, West)", 1, world.airport)
    for values, by, pointer, message in (
        ((7, "East"), world.airport, "/issued_by", "no role that may appoint"),
        ((7, "West"), world.united, "/issued_by", "cannot appoint itself"),
        (("7", "West"), world.airport, "/parameters/0", "whole number"),
        ((7,), world.airport, "/parameters", "2 parameters, and here 1"),
    ):
        with pytest.raises(Invalid, match=message) as failure:
            badge(world, *values, by=by)
        assert failure.value.problems[0].pointer == pointer
    with pytest.raises(Invalid, match="at most 1 day") as failure:
        badge(world, 8, "West", by=world.airport, hours=25)
    assert failure.value.problems[0].pointer == "/ends"
    with pytest.raises(Invalid, match="no rule says"):
        appoint(world, world.united, "licensed", issued_by=world.airport)
    with pytest.raises(Forbidden):
        services.appoint(actor=world.stranger, principal=world.united, name="badge")
    assert badge(world, 9, "East", by=None).issuer == world.manager  # managers may


def test_it_ends_with_what_its_issuer_was(chiefs: World) -> None:
    world = chiefs
    given = badge(world, 7, "West", by=world.airport)
    elsewhere = badge(world, 7, "East", by=None)
    heads = Appointment.objects.get(name="heads")
    services.end_appointment(actor=world.manager, appointment=heads)
    given.refresh_from_db()
    elsewhere.refresh_from_db()
    assert given.closed is not None
    assert "JFK" in given.reason
    assert elsewhere.closed is None
    entry = Entry.objects.order_by("-sequence")[0]
    assert (entry.action, entry.actor_name) == ("appointment.ended", "system")


def test_rules_for_appointments_are_checked(world: World) -> None:
    who = {"actor": world.manager, "domain": world.flights}
    for more, pointer in (
        ({"by": ["nobody"]}, "/by/0"),
        ({"by": ["airline", "airline(x)"]}, "/by/1"),
        ({"by": ["airline(n)"], "parameters": ["n"]}, "/by/0"),
        ({"by": ["(x"]}, "/by/0"),
        ({"longest": 0}, ""),
        ({"parameters": ["n", "n"]}, "/parameters/1"),
    ):
        with pytest.raises(Invalid) as failure:
            services.create_appointment_rule(**who, name="badge", **more)
        assert failure.value.problems[0].pointer == pointer, more
    row = services.create_appointment_rule(**who, name="badge", by=["airline"])
    with pytest.raises(InUse):
        services.delete_role(actor=world.manager, role=world.airline)
    services.update_appointment_rule(actor=world.manager, appointment_rule=row, data={"by": []})
    services.delete_appointment_rule(actor=world.manager, appointment_rule=row)


def test_it_takes_effect_and_lapses_to_the_second(world: World) -> None:
    begin = (timezone.now() + HOUR).replace(microsecond=0)
    end = begin + HOUR
    given = appoint(world, world.airport, "licensed", starts=begin, ends=end)
    second = timedelta(seconds=1)
    held = [
        bool(selectors.active_roles(world.airport, at=at))
        for at in (begin - second, begin, end - second, end)
    ]
    assert held == [False, True, True, False]
    assert selectors.next_boundary(world.flights, after=begin - HOUR / 2) == begin
    assert selectors.next_boundary(world.flights, after=begin) == end
    assert lapsing.lapse_due() == 0
    services.end_appointment(actor=world.manager, appointment=given)


def test_a_lapse_is_recorded_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    end = timezone.now() + HOUR
    given = appoint(world, world.airport, "licensed", ends=end)
    session = services.open_session(actor=world.manager, principal=world.airport)
    before = Entry.objects.count()
    assert lapsing.lapse_due() == 0
    monkeypatch.setattr(timezone, "now", lambda: end)
    assert selectors.active_roles(world.airport) == frozenset()  # recorded or not
    assert lapsing.lapse_due() == 1
    assert lapsing.lapse_due() == 0
    entries = list(Entry.objects.order_by("sequence")[before:])
    assert [(each.action, each.actor_name) for each in entries] == [
        ("appointment.lapsed", "system"),
        ("session.fell", "system"),
    ]
    given.refresh_from_db()
    assert given.closed == end
    (fallen,) = session.roles.all()
    assert fallen.chain[0].startswith("`airline` ended because appointment `licensed` ended at")
    with pytest.raises(InUse):
        services.end_appointment(actor=world.manager, appointment=given)


def test_those_that_say_the_same_have_numbers(world: World) -> None:
    first = appoint(world, world.airport, "on", "shift")
    second = appoint(world, world.airport, "on", "shift")
    assert [first.number, second.number] == [1, 2]
    with pytest.raises(Invalid, match="number 2 already"):
        appoint(world, world.airport, "on", "shift", number=2)
    services.end_appointment(actor=world.manager, appointment=first)
    third = appoint(world, world.airport, "on", "shift")
    assert third.number == 1
    with transaction.atomic(), pytest.raises(IntegrityError):
        Appointment.objects.create(
            principal=world.airport, name="on", parameters=["shift"], number=2
        )


def test_documents_make_the_same_again(chiefs: World) -> None:
    world = chiefs
    badge(world, 7, "West", by=world.airport, reason="first day")
    kind = kinds.kind("appointment")
    documents = dict(kind.documents(world.flights))
    assert list(documents) == [
        "JFK/heads(West)",
        "United/badge(7, West)",
        "United/licensed",
    ]
    document = documents["United/badge(7, West)"]
    assert document["issued_by"] == "JFK"
    row = kind.find(world.flights, "United/badge(7, West)")
    assert mapping.appointment(row) == document
    assert kind.whole(world.flights, document) == document
    short = {key: document[key] for key in ("principal", "name", "parameters", "issued_by")}
    assert kind.whole(world.flights, short)["starts"] == document["starts"]
    kind.delete(world.manager, row)
    assert mapping.appointment(kind.create(world.manager, world.flights, "", document)) == document
    rule = kinds.kind("appointment-rule")
    (written,) = rule.documents(world.flights).values()
    assert rule.whole(world.flights, written) == written


def test_nobody_who_was_revoked_is_appointed(world: World) -> None:
    identity.mark_revoked(actor=world.manager, principal=world.airport)
    world.airport.refresh_from_db()
    with pytest.raises(Invalid, match="was revoked"):
        appoint(world, world.airport, "licensed")


def test_delegates_appoint_to_what_they_were_given(world: World, delegate: User) -> None:
    given = services.appoint(actor=delegate, principal=world.airport, name="licensed")
    services.end_appointment(actor=delegate, appointment=given)
    services.update_role(actor=delegate, role=world.airline, data={"title": "Airlines"})
    for attempt in (
        lambda: services.appoint(actor=delegate, principal=world.airport, name="other"),
        lambda: services.create_role(actor=delegate, domain=world.flights, name="mine"),
        lambda: services.open_session(actor=delegate, principal=world.united),
    ):
        with pytest.raises(Forbidden):
            attempt()
