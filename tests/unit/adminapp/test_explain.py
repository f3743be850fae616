"""Explanations: chains of rules, what is missing in words, guests, and two principals compared."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from adminapp.agreements import services as agreements
from adminapp.agreements.models import Agreement
from adminapp.identity import services as identity
from adminapp.identity.models import Principal
from adminapp.policies import reach, services
from adminapp.policies.candidates import Question
from adminapp.policies.explain import Explanation, contrast, explain
from adminapp.roles import services as roles
from adminapp.roles.models import Appointment
from tests.support.control_plane import World

MAY = datetime(2026, 5, 3, 10, tzinfo=UTC)


def ask(world: World, principal: Principal | None = None, *asked: Any, **more: Any) -> Explanation:
    who = principal or world.united
    return explain(world.flights, who, *(asked or ("subscribe", "Flight")), **more)


def texts(found: Explanation) -> list[str]:
    return [f"{'  ' * reason.depth}{reason.text}" for reason in found.chain]


def missing(found: Explanation) -> list[str]:
    return [each.text for each in found.missing]


def test_a_chain(world: World) -> None:
    Appointment.objects.update(starts=MAY)
    found = ask(world, None, "subscribe", "Departure", "tail")
    assert found.allowed
    assert found.condition == "where event.carrier is UA"
    assert found.summary == "United may read `tail` of `Departure` where event.carrier is UA"
    given = "given by mona, from 3 May 2026, 10:00 UTC, for good"
    assert texts(found) == [
        "policy `own flights` permits to subscribe `Flight`, of which `Departure` is a sub-type",
        "  role `airline` is active by rule 1",
        f"    appointment `licensed` was {given}",
        "  of the events only those where event.carrier is UA",
        "only brokers of `handlers` hold key `tail` and can read `tail`",
    ]


def test_an_event_is_judged_by_its_values(world: World) -> None:
    assert ask(world, event={"carrier": "UA"}).allowed
    refused = ask(world, event={"carrier": "AA"})
    assert not refused.allowed
    assert missing(refused) == ["`subject.carrier` must be AA, and is UA"]
    assert [step.text for step in refused.missing[0].steps] == ["set its attribute `carrier` to AA"]


def test_an_appointment_that_ended(world: World) -> None:
    Appointment.objects.update(starts=MAY - timedelta(days=1), ends=MAY)
    found = ask(world)
    assert missing(found) == [
        "role `airline` is missing: appointment `licensed` ended on 3 May 2026, 10:00 UTC"
    ]
    assert found.alternatives[0].sufficient
    assert [step.text for step in found.missing[0].steps] == ["appoint it to `licensed`"]
    assert ask(world, at=MAY - timedelta(hours=1)).allowed
    Appointment.objects.update(starts=MAY, ends=None)
    assert missing(ask(world, at=MAY - timedelta(hours=1))) == [
        "role `airline` is missing: appointment `licensed` begins on 3 May 2026, 10:00 UTC"
    ]
    Appointment.objects.all().delete()
    assert missing(ask(world)) == [
        "role `airline` is missing: appointment `licensed` was never given"
    ]


def test_a_chain_of_roles_and_a_missing_prerequisite(world: World) -> None:
    roles.create_role(
        actor=world.manager,
        domain=world.flights,
        name="alliance",
        rules=[{"prerequisites": ["airline"], "appointments": ["member"]}],
    )
    services.update_policy(
        actor=world.manager,
        policy=world.policy,
        data={"expression": 'subject.role == "alliance"'},
    )
    assert missing(ask(world)) == [
        "role `alliance` is missing: appointment `member` was never given"
    ]
    roles.appoint(actor=world.manager, principal=world.united, name="member")
    assert [line.split(" was given")[0] for line in texts(ask(world))] == [
        "policy `own flights` permits to subscribe `Flight`",
        "  role `alliance` is active by rule 1",
        "    role `airline` is active by rule 1",
        "      appointment `licensed`",
        "    appointment `member`",
    ]
    (lack,) = ask(world, world.airport).missing
    assert lack.text == (
        "role `alliance` is missing: appointment `licensed` was never given and"
        " appointment `member` was never given"
    )


def test_a_role_that_must_not_be_active(world: World) -> None:
    services.update_policy(
        actor=world.manager,
        policy=world.policy,
        data={"expression": '!(subject.role == "airline") && has(subject.carrier)'},
    )
    (lack,) = ask(world).missing
    assert lack.text == "role `airline` must not be active, and is by appointment `licensed`"
    assert [step.text for step in lack.steps] == ["end its appointment `licensed`"]


def test_policies_that_are_off_early_late_or_narrow(world: World) -> None:
    now = timezone.now()
    for data, text in (
        ({"enabled": False}, "policy `own flights` is switched off"),
        ({"enabled": True, "valid_from": now + timedelta(days=1)}, "policy `own flights` begins"),
        (
            {"valid_from": None, "valid_until": now - timedelta(seconds=1)},
            "policy `own flights` ended",
        ),
        ({"valid_until": None, "attributes": ["origin"]}, "does not permit attribute `tail`"),
    ):
        services.update_policy(actor=world.manager, policy=world.policy, data=data)
        found = ask(world, None, "subscribe", "Flight", "tail")
        assert not found.allowed
        assert text in missing(found)[0]
        assert found.alternatives[0].sufficient


def test_what_does_not_exist_or_is_no_longer_there(world: World) -> None:
    assert "Flihgt" in missing(ask(world, None, "subscribe", "Flihgt"))[0]
    assert (
        "of `Flight`, `delay` is no known attribute"
        in missing(ask(world, None, "subscribe", "Flight", "delay"))[0]
    )
    assert missing(ask(world, None, "publish", "Flight")) == [
        "no policy is about who may publish `Flight`"
    ]
    identity.mark_revoked(actor=world.manager, principal=world.united)
    world.united.refresh_from_db()
    found = ask(world)
    assert found.missing[0].kind == "revoked"
    assert not found.alternatives[0].sufficient


def test_the_environment(world: World) -> None:
    services.update_policy(
        actor=world.manager,
        policy=world.policy,
        data={"expression": 'subject.role == "airline" && env.hour >= 9'},
    )
    early = datetime(2126, 5, 3, 3, tzinfo=UTC)
    (lack,) = ask(world, at=early).missing
    assert lack.text == "`env.hour` must be at least 9, and is 3"
    assert ask(world, at=early + timedelta(hours=9)).allowed


def test_two_principals(world: World) -> None:
    asked = Question(world.flights, world.united, "subscribe", "Flight", None, timezone.now())
    found = contrast(asked, world.airport)
    assert (found.first.allowed, found.second.allowed) == (True, False)
    assert found.summary == (
        "United may receive `Flight` and JFK may not: for JFK, role `airline` is missing:"
        " appointment `licensed` was never given; `subject.carrier` must be given, and is not given"
    )
    assert contrast(asked, world.united).summary == "United and United may both receive `Flight`"


def test_the_cost_does_not_grow_with_the_domain(world: World) -> None:
    def asked() -> int:
        with CaptureQueriesContext(connection) as captured:
            ask(world)
        return len(captured)

    ask(world)  # rows that the caller holds are complete from now on
    few = asked()
    Principal.objects.bulk_create(
        Principal(domain=world.flights, name=f"P{number}", kind="subscriber")
        for number in range(50)
    )
    assert asked() == few


# -- guests ----------------------------------------------------------------------------------


@pytest.fixture
def engineer(world: World) -> Principal:
    """Somebody of `heating`, whom an agreement lets in while it is an engineer."""
    roles.create_role(
        actor=None, domain=world.heating, name="engineer", rules=[{"appointments": ["hired"]}]
    )
    row = agreements.propose_agreement(
        actor=world.manager,
        provider=world.flights,
        consumer=world.heating,
        name="gates",
        terms={
            "roles": [{"role": "engineer", "as": "airline"}],
            "opens": [{"type": "Flight", "action": "subscribe", "attributes": ["origin"]}],
            "subject_attributes": [],
            "starts": "2020-01-01T00:00:00Z",
            "ends": "2099-01-01T00:00:00Z",
            "purpose": "to heat the gates in time",
        },
    )
    for standing in ("manager", "stranger"):
        newest = row.rounds.order_by("-number")[0]
        row = agreements.accept_agreement(
            actor=world.user(standing), agreement=row, number=newest.number, digest=newest.digest
        )
    services.update_policy(
        actor=world.manager, policy=world.policy, data={"expression": 'subject.role == "airline"'}
    )
    return identity.create_principal(
        actor=world.stranger, domain=world.heating, name="Ann", kind="subscriber"
    )


def test_guests(world: World, engineer: Principal) -> None:
    refused = ask(world, engineer)
    assert missing(refused) == ["role `airline` is missing: appointment `hired` was never given"]
    assert not list(reach.take(world.flights).guests[0].effective())
    roles.appoint(actor=world.stranger, principal=engineer, name="hired")
    (line,) = reach.take(world.flights).guests[0].effective(type="Flight")
    assert (line.principal, line.domain, line.agreement) == ("Ann", "heating", "gates")
    assert (line.attributes, line.policies) == (("origin",), ("own flights",))
    found = ask(world, engineer, "subscribe", "Flight", "origin")
    assert [line.split(", until")[0].split(" was given")[0] for line in texts(found)[:5]] == [
        "policy `own flights` permits to subscribe `Flight`",
        "  agreement `gates` lets principals of `heating` in",
        "    it counts role `engineer` of `heating` as `airline`",
        "  role `engineer` is active by rule 1",
        "    appointment `hired`",
    ]
    closed = ask(world, engineer, "subscribe", "Flight", "carrier")
    assert missing(closed) == ["agreement `gates` does not let guests read `carrier` of `Flight`"]
    Agreement.objects.update(state="withdrawn", closed_at=timezone.now())
    assert missing(ask(world, engineer))[0] == (
        "no agreement between `heating` and `flights` is in force that lets its principals in"
    )


def test_what_an_agreement_gives_and_takes(world: World, engineer: Principal) -> None:
    roles.appoint(actor=world.stranger, principal=engineer, name="hired")
    before = reach.take(world.flights)
    Agreement.objects.update(state="withdrawn", closed_at=timezone.now())
    found = reach.compare(before, reach.take(world.flights))
    assert (found.gained, found.lost) == (0, 2)
    assert {(line.principal, line.type, line.attributes) for line in found.losses} == {
        ("Ann", "Flight", ("origin",)),
        ("Ann", "Departure", ("origin",)),
    }
