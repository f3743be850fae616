"""Agreements: two sides, rounds, exactly the terms that were seen, and an end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from adminapp.agreements import selectors, services
from adminapp.agreements.models import Acceptance, Agreement, AgreementRound
from adminapp.audit.models import Entry
from adminapp.catalog import services as catalog
from adminapp.core.errors import Conflict, Forbidden, InUse, Invalid
from adminapp.identity import guests, kinds
from adminapp.identity import services as identity
from adminapp.identity.models import Principal
from adminapp.roles import services as roles
from tests.support.control_plane import World

ENDS = "2099-01-01T00:00:00Z"


@pytest.fixture
def met(world: World) -> World:
    """Both domains have what the terms name."""
    roles.create_role(
        actor=world.stranger,
        domain=world.heating,
        name="engineer",
        rules=[{"appointments": ["engineer"]}],
    )
    catalog.create_subject_attribute(
        actor=world.stranger,
        domain=world.heating,
        name="carrier",
        type={"type": "enum", "values": ["AA", "UA"]},
    )
    return world


def terms(**changes: Any) -> dict[str, Any]:
    return {
        "roles": [{"role": "engineer", "as": "airline"}],
        "opens": [{"type": "Flight", "action": "subscribe", "attributes": ["carrier", "origin"]}],
        "subject_attributes": ["carrier"],
        "starts": "2020-01-01T00:00:00Z",
        "ends": ENDS,
        "purpose": "to heat the gates in time",
        **changes,
    }


def propose(world: World, actor: Any = "manager", **changes: Any) -> Agreement:
    return services.propose_agreement(
        actor=world.user(actor) if actor else None,
        provider=world.flights,
        consumer=world.heating,
        name="gates",
        terms=terms(**changes),
    )


def last(row: Agreement) -> AgreementRound:
    return row.rounds.order_by("-number")[0]


def accept(world: World, row: Agreement, *standings: str, **changes: Any) -> Agreement:
    for standing in standings:
        given = {"number": last(row).number, "digest": last(row).digest, **changes}
        row = services.accept_agreement(actor=world.user(standing), agreement=row, **given)
    return row


def revisions(world: World) -> tuple[int, int]:
    world.flights.refresh_from_db()
    world.heating.refresh_from_db()
    return world.flights.revision, world.heating.revision


def test_nothing_is_open_before_both_said_yes(met: World) -> None:
    before = revisions(met)
    row = propose(met)
    assert row.state == "proposed"
    assert selectors.openings(met.flights) == ()
    row = accept(met, row, "manager")
    assert (row.state, selectors.openings(met.flights)) == ("proposed", ())
    assert revisions(met) == before
    row = accept(met, row, "stranger")
    assert row.state == "accepted"
    assert revisions(met) == (before[0] + 1, before[1] + 1)
    (opening,) = selectors.openings(met.flights)
    assert (opening.consumer, opening.name, opening.subject_attributes) == (
        "heating",
        "gates",
        ("carrier",),
    )
    assert selectors.openings(met.heating) == ()
    assert guests.hosts([met.heating]) == [met.flights.pk]
    assert [(word.side, word.actor) for word in Acceptance.objects.all()] == [
        ("provider", met.manager),
        ("consumer", met.stranger),
    ]


def test_one_side_cannot_say_yes_for_the_other(met: World) -> None:
    row = accept(met, propose(met), "manager")
    with pytest.raises(InUse, match="accepted this round already"):
        accept(met, row, "manager")
    with pytest.raises(Forbidden):
        accept(met, row, "manager", side="consumer")
    with pytest.raises(Forbidden):
        accept(met, row, "auditor")
    assert row.state == "proposed"
    # An operator may speak for both, and says for whom.
    with pytest.raises(Invalid, match="for which side"):
        accept(met, row, "operator")
    assert accept(met, row, "operator", side="consumer").state == "accepted"


def test_a_domain_that_asks_for_approvals_is_spoken_for_by_two(met: World) -> None:
    row = accept(met, propose(met), "stranger")
    identity.update_domain(actor=met.manager, domain=met.flights, data={"approval": "sensitive"})
    row = accept(met, Agreement.objects.get(pk=row.pk), "manager")
    row = services.counter_agreement(actor=met.stranger, agreement=row, terms=terms())
    row = accept(met, row, "stranger", "manager")
    assert (row.state, selectors.openings(met.flights)) == ("countered", ())
    with pytest.raises(InUse, match="you have accepted"):
        accept(met, row, "manager")
    row = accept(met, row, "operator", side="provider")
    assert row.state == "accepted"


def test_going_back_in_the_consumer_proposes_nothing(met: World) -> None:
    propose(met)
    taken = Entry.objects.get(action="agreement.proposed", domain_name="heating")
    assert taken.object_type == "taken-agreement"


def test_only_what_was_seen_is_accepted(met: World) -> None:
    row = propose(met)
    with pytest.raises(Invalid, match="not the terms"):
        accept(met, row, "stranger", digest="0" * 64)
    old = last(row)
    row = services.counter_agreement(
        actor=met.stranger, agreement=row, number=1, terms=terms(subject_attributes=[])
    )
    assert row.state == "countered"
    with pytest.raises(Conflict, match="not the newest"):
        accept(met, row, "manager", number=old.number, digest=old.digest)
    with pytest.raises(Conflict):
        services.counter_agreement(actor=met.manager, agreement=row, number=1, terms=terms())
    row = accept(met, row, "stranger", "manager")
    assert row.accepted_round.number == 2
    assert selectors.openings(met.flights)[0].subject_attributes == ()
    assert [each.number for each in row.rounds.all()] == [1, 2]


def test_new_terms_leave_the_old_ones_in_force_until_both_accept(met: World) -> None:
    row = accept(met, propose(met), "manager", "stranger")
    row = services.counter_agreement(
        actor=met.stranger, agreement=row, terms=terms(subject_attributes=[])
    )
    row = accept(met, row, "stranger")
    assert selectors.openings(met.flights)[0].subject_attributes == ("carrier",)
    row = services.reject_agreement(actor=met.manager, agreement=row)
    assert row.state == "accepted"
    with pytest.raises(InUse, match="rejected"):
        accept(met, row, "manager")
    row = services.counter_agreement(
        actor=met.manager, agreement=row, terms=terms(subject_attributes=[])
    )
    accept(met, row, "stranger", "manager")
    assert selectors.openings(met.flights)[0].subject_attributes == ()


def test_a_rejected_proposal_is_over(met: World) -> None:
    row = services.reject_agreement(actor=met.stranger, agreement=propose(met), reason="no")
    assert (row.state, row.closed_by, row.reason) == ("rejected", "consumer", "no")
    with pytest.raises(InUse, match="is rejected"):
        services.counter_agreement(actor=met.manager, agreement=row, terms=terms())
    with pytest.raises(InUse):
        services.withdraw_agreement(actor=met.manager, agreement=row)
    assert propose(met).pk != row.pk  # its name is free again


@pytest.mark.parametrize("standing", ["manager", "stranger"])
def test_either_side_withdraws_at_once(met: World, standing: str) -> None:
    row = accept(met, propose(met), "manager", "stranger")
    before = revisions(met)
    row = services.withdraw_agreement(actor=met.user(standing), agreement=row, reason="enough")
    assert row.state == "withdrawn"
    assert selectors.openings(met.flights) == ()
    assert guests.hosts([met.heating]) == []
    assert revisions(met) == (before[0] + 1, before[1] + 1)
    with pytest.raises(Forbidden):
        services.withdraw_agreement(actor=met.auditor, agreement=row)
    entries = Entry.objects.filter(action="agreement.withdrawn").order_by("sequence")
    assert [(entry.domain_name, entry.object_name) for entry in entries] == [
        ("flights", "gates"),
        ("heating", "flights/gates"),
    ]


def test_it_lapses_to_the_second(met: World) -> None:
    starts = datetime(2091, 5, 1, 12, tzinfo=UTC)
    ends = starts + timedelta(days=1)
    row = propose(met, starts=starts.isoformat(), ends=ends.isoformat())
    row = accept(met, row, "manager", "stranger")
    second = timedelta(seconds=1)
    open_at = {
        at: bool(selectors.openings(met.flights, at=at))
        for at in (starts - second, starts, ends - second, ends)
    }
    assert list(open_at.values()) == [False, True, True, False]
    assert selectors.state(row, starts) == "accepted"
    assert selectors.state(row, ends) == "lapsed"
    now = timezone.now()
    assert selectors.next_boundary(met.flights, after=now) == starts
    assert selectors.next_boundary(met.flights, after=starts) == ends
    assert selectors.next_boundary(met.flights, after=ends) is None
    assert selectors.next_boundary(met.heating, after=now) is None
    # A lapsed one is renewed by another round.
    row = services.counter_agreement(actor=met.manager, agreement=row, terms=terms())
    assert accept(met, row, "manager", "stranger").accepted_round.number == 2


def test_appointments_of_guests_are_boundaries_of_the_host(met: World) -> None:
    accept(met, propose(met), "manager", "stranger")
    stoker = identity.create_principal(
        actor=met.stranger, domain=met.heating, name="Stoker", kind="subscriber"
    )
    begin = timezone.now() + timedelta(days=3)
    roles.appoint(actor=met.stranger, principal=stoker, name="engineer", starts=begin)
    assert selectors.next_boundary(met.flights, after=timezone.now()) == begin


WRONG: list[tuple[dict[str, Any], str, str | None]] = [
    ({"roles": []}, "/terms/roles", None),
    ({"roles": "engineer"}, "/terms/roles", None),
    ({"roles": [{"role": "engineer"}]}, "/terms/roles/0", None),
    ({"roles": [{"role": "engineer", "as": "airlin"}]}, "/terms/roles/0/as", "airline"),
    ({"opens": []}, "/terms/opens", None),
    ({"opens": [{"type": "Flight", "action": "define"}]}, "/terms/opens/0/action", None),
    ({"opens": [{"type": "Flihgt", "action": "publish"}]}, "/terms/opens/0/type", "Flight"),
    (
        {"opens": [{"type": "Flight", "action": "publish", "attributes": ["orign"]}]},
        "/terms/opens/0/attributes/0",
        "origin",
    ),
    ({"subject_attributes": ["carier"]}, "/terms/subject_attributes/0", "carrier"),
    ({"subject_attributes": ["carrier", "carrier"]}, "/terms/subject_attributes", None),
    ({"ends": None}, "/terms/ends", None),
    ({"ends": "2019-01-01T00:00:00Z"}, "/terms/ends", None),
    ({"ends": "2098-01-01T00:00:00"}, "/terms/ends", None),
    ({"ends": "9999-12-31T23:59:59-14:00"}, "/terms/ends", None),
    ({"starts": "2021-01-01T00:00:00Z", "ends": "2021-02-01T00:00:00Z"}, "/terms/ends", None),
    ({"purpose": 7}, "/terms/purpose", None),
    ({"rolse": []}, "/terms/rolse", "roles"),
]


@pytest.mark.parametrize(("changes", "pointer", "suggestion"), WRONG)
def test_wrong_terms_are_pointed_at(
    met: World, changes: dict[str, Any], pointer: str, suggestion: str | None
) -> None:
    with pytest.raises(Invalid) as failure:
        propose(met, **changes)
    found = failure.value.problems[0]
    assert (found.pointer, found.suggestion) == (pointer, suggestion)
    assert not Agreement.objects.exists()
    assert not Entry.objects.filter(action__startswith="agreement").exists()


def test_each_side_is_told_of_its_own_names_alone(met: World) -> None:
    """What exists in the other domain must not be found out by proposing."""
    row = propose(met, roles=[{"role": "enginer", "as": "airline"}])
    with pytest.raises(Invalid) as failure:
        accept(met, row, "stranger")
    problem = failure.value.problems[0]
    assert (problem.pointer, problem.suggestion) == ("/terms/roles/0/role", "engineer")
    accept(met, row, "manager")
    services.withdraw_agreement(actor=met.manager, agreement=row)
    theirs = propose(met, "stranger", roles=[{"role": "engineer", "as": "nosuch"}])
    with pytest.raises(Invalid) as failure:
        accept(met, theirs, "manager")
    assert failure.value.problems[0].pointer == "/terms/roles/0/as"
    # Who accepts last does not learn what the first side lacks by now.
    accept(met, theirs, "stranger")
    Acceptance.objects.create(round=last(theirs), side="provider")
    Acceptance.objects.filter(side="consumer").delete()
    with pytest.raises(InUse, match="the model of the provider no longer has all"):
        accept(met, theirs, "stranger")


def test_a_live_agreement_holds_the_model_that_it_names(met: World) -> None:
    row = accept(met, propose(met), "manager", "stranger")
    with pytest.raises(InUse, match="agreement `gates`"):
        roles.delete_role(actor=met.stranger, role=met.heating.roles.get(name="engineer"))
    services.withdraw_agreement(actor=met.stranger, agreement=row)
    roles.delete_role(actor=met.stranger, role=met.heating.roles.get(name="engineer"))


def test_parties_and_names(met: World) -> None:
    with pytest.raises(Invalid) as failure:
        services.propose_agreement(
            actor=met.manager,
            provider=met.flights,
            consumer=met.flights,
            name="self",
            terms=terms(),
        )
    assert failure.value.problems[0].pointer == "/consumer"
    propose(met)
    with pytest.raises(Invalid):
        propose(met)
    other = identity.create_domain(actor=met.operator, name="other", title="Other")
    with pytest.raises(Forbidden):
        services.propose_agreement(
            actor=met.manager, provider=met.heating, consumer=other, name="x", terms=terms()
        )


def test_only_what_is_over_goes_with_a_domain(met: World) -> None:
    Principal.objects.filter(domain=met.heating).delete()
    ended = accept(met, propose(met), "manager", "stranger")
    with pytest.raises(InUse):
        identity.delete_domain(actor=met.operator, domain=met.heating)
    services.withdraw_agreement(actor=met.manager, agreement=ended)
    live = propose(met)
    with pytest.raises(InUse):
        identity.delete_domain(actor=met.operator, domain=met.heating)
    assert Agreement.objects.count() == 2
    services.reject_agreement(actor=met.stranger, agreement=live)
    identity.delete_domain(actor=met.operator, domain=met.heating)
    assert not Agreement.objects.exists()
    assert Entry.objects.filter(action="agreement.withdrawn").count() == 2


def test_the_database_holds_what_the_services_promise(met: World) -> None:
    row = propose(met)
    broken: list[dict[str, Any]] = [
        {"consumer": met.flights},
        {"state": "accepted"},
        {"state": "withdrawn"},
        {"state": "elsewhere"},
    ]
    for changes in broken:
        with pytest.raises(IntegrityError), transaction.atomic():
            Agreement.objects.filter(pk=row.pk).update(**changes)
    first = last(row)
    with pytest.raises(IntegrityError), transaction.atomic():
        AgreementRound.objects.filter(pk=first.pk).update(ends=first.starts)
    words = [Acceptance(round=first, side="provider", actor=met.manager) for _ in range(2)]
    with pytest.raises(IntegrityError), transaction.atomic():
        Acceptance.objects.bulk_create(words)


def test_who_sees_it(met: World) -> None:
    row = propose(met)
    for standing in ("operator", "manager", "auditor", "stranger"):
        assert list(selectors.agreements(met.user(standing))) == [row], standing
    nobody = identity.create_user(actor=met.operator, username="nobody")
    assert not selectors.agreements(nobody)
    assert not selectors.directory(nobody)
    assert not selectors.directory(met.auditor)
    assert {each.name for each in selectors.directory(met.manager)} == {"flights", "heating"}


def test_a_file_of_the_provider_proposes_and_counters(met: World) -> None:
    kind = kinds.kind("agreement")
    row = propose(met)
    document = kind.documents(met.flights)["gates"]
    assert kind.documents(met.heating) == {}
    assert kind.whole(met.flights, kind.short(document)) == document
    kind.delete(met.manager, row)
    assert kind.documents(met.flights) == {}
    made = kind.create(met.manager, met.flights, "gates", document)
    assert (made.state, kind.documents(met.flights)) == ("proposed", {"gates": document})
    assert kind.find(met.flights, "gates") == kind.find(met.heating, "flights/gates") == made
    changed = kind.whole(
        met.flights, {**document, "purpose": "other", "starts": "2021-01-01T00:00:00+01:00"}
    )
    assert kind.update(met.manager, made, changed).state == "countered"
    assert kind.documents(met.flights) == {"gates": changed}
    with pytest.raises(Invalid) as failure:
        kind.create(
            met.manager, met.flights, "x", {**document, "name": "x", "subject_attributes": ["no"]}
        )
    assert failure.value.problems[0].pointer == "/subject_attributes/0"
