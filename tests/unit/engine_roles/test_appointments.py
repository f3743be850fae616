"""Appointments: issuers, beginnings, expiry, revocation; time is an argument."""

from __future__ import annotations

import pytest

from policyengine.errors import InputError
from policyengine.roles import Appointment, RolePolicy, Session, ground_atom, read_rule
from policyengine.roles import appointments as appointments_module

POLICY = RolePolicy(
    (
        read_rule("officer(x)", appointments=["sworn(x)"], membership=["sworn(x)"]),
        read_rule("sergeant(x)", prerequisites=["officer(x)"], membership=["officer(x)"]),
    )
)


def test_an_appointment_lapses_to_the_second() -> None:
    session = Session(POLICY, now=100)
    assert session.appoint("sworn(7)", expires=200).reason == "`sworn(7)` is held"
    session.activate("officer(7)")
    session.activate("sergeant(7)")
    assert session.advance(199).fallen == ()
    outcome = session.advance(250)
    assert [(each.role.text, each.at) for each in outcome.fallen] == [
        ("officer(7)", 200), ("sergeant(7)", 200),
    ]  # fmt: skip
    assert outcome.reason == (
        "it is 250; `officer(7)` ended because appointment `sworn(7)` lapsed at 200;"
        " `sergeant(7)` ended because role `officer(7)` ended"
    )
    assert (session.now, session.active, session.appointments) == (250, (), ())


def test_it_is_held_from_its_first_second() -> None:
    session = Session(POLICY)
    assert session.appoint("sworn(7)", starts=10).reason == "`sworn(7)` will be held from 10"
    assert not session.activate("officer(7)").ok
    session.advance(9)
    assert not session.activate("officer(7)").ok
    session.advance(10)
    assert session.active == ()  # nothing becomes active by itself
    assert session.activate("officer(7)").ok


def test_lapses_come_in_the_order_of_time() -> None:
    session = Session(POLICY)
    for badge, expires in ((1, 30), (2, 10), (3, 20), (4, 10)):
        session.appoint(f"sworn({badge})", expires=expires)
        session.activate(f"officer({badge})")
    fallen = session.advance(30).fallen
    assert [(each.role.text, each.at) for each in fallen] == [
        ("officer(2)", 10), ("officer(4)", 10), ("officer(3)", 20), ("officer(1)", 30),
    ]  # fmt: skip


def test_two_issuers() -> None:
    session = Session(POLICY)
    session.appoint("sworn(7)", issuer="county", expires=10)
    session.appoint("sworn(7)", issuer="city", starts=10, expires=20)
    session.activate("officer(7)")
    assert session.advance(10).fallen == ()  # one ends in the second in which the other begins
    session.appoint("sworn(7)", issuer="county")
    assert not session.revoke("sworn(7)", issuer="state").ok
    kept = session.revoke("sworn(7)", issuer="city")
    assert (kept.ok, kept.fallen) == (True, ())
    assert kept.reason == "appointment `sworn(7)` was revoked; another issuer's is held"
    assert session.revoke("sworn(7)", issuer="county").fallen[0].role.text == "officer(7)"
    outcome = session.revoke("sworn(7)", issuer="county")
    assert (outcome.ok, outcome.reason) == (False, "there is no appointment `sworn(7)` by `county`")
    assert session.revoke("sworn(7)").reason == "there is no appointment `sworn(7)`"


def test_everybodys_are_revoked_when_no_issuer_is_named() -> None:
    session = Session(POLICY)
    session.appoint("sworn(7)", issuer="county")
    session.appoint("sworn(7)", issuer="city")
    session.activate("officer(7)")
    assert session.revoke("sworn(7)").fallen[0].role.text == "officer(7)"
    assert session.appointments == ()


def test_what_is_not_held_yet_can_be_revoked() -> None:
    session = Session(POLICY)
    session.appoint("sworn(7)", starts=10)
    assert session.appointments == (Appointment(ground_atom("sworn(7)"), "", 10),)
    outcome = session.revoke("sworn(7)")
    assert (outcome.ok, outcome.fallen) == (True, ())
    session.advance(10)
    assert not session.activate("officer(7)").ok


def test_an_issuer_replaces_its_own() -> None:
    session = Session(POLICY)
    session.appoint("sworn(7)", expires=10)
    session.activate("officer(7)")
    session.appoint("sworn(7)", expires=20)
    assert session.advance(10).fallen == ()
    outcome = session.appoint("sworn(7)", starts=15)
    assert outcome.fallen[0].reason == (
        "`officer(7)` ended because appointment `sworn(7)` was issued anew, from 15"
    )
    session.advance(1000)
    assert session.activate("officer(7)").ok


def test_what_has_expired_already_is_not_held() -> None:
    session = Session(POLICY, now=100)
    session.appoint("sworn(7)")
    outcome = session.appoint("sworn(7)", starts=10, expires=100)
    assert (outcome.ok, outcome.reason) == (False, "`sworn(7)` expired at 100, and it is 100")
    assert session.activate("officer(7)").ok  # the one before still stands


def test_what_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(POLICY, now=5)
    with pytest.raises(InputError) as caught:
        session.appoint("sworn(7)", starts=10, expires=10)
    assert (caught.value.kind, caught.value.where) == ("invalid", "expires")
    with pytest.raises(InputError) as caught:
        session.advance(4)
    assert caught.value.kind == "invalid"
    monkeypatch.setattr(appointments_module, "MAX_HELD", 2)
    session.appoint("sworn(1)", expires=6)
    session.appoint("sworn(1)", expires=7)
    session.appoint("sworn(2)")
    with pytest.raises(InputError) as caught:
        session.appoint("sworn(3)")
    assert caught.value.kind == "too-large"
    session.advance(7)
    session.appoint("sworn(3)")  # a lapsed one makes room
    with pytest.raises(InputError):
        session.appoint("sworn(4)")
    session.revoke("sworn(3)")
    assert session.appoint("sworn(4)").ok
