"""The examples of paper 002: sections 3.2, 4 and 5."""

from __future__ import annotations

import pytest

from policyengine.roles import RolePolicy, Session, findings

CITY = RolePolicy.from_json(
    {
        "rules": [
            # Authentication with the local OASIS service starts a session.
            {"role": "authenticated(o)", "appointments": ["certificate(o)"],
             "membership": ["certificate(o)"]},
            {"role": "police-officer(o)", "prerequisites": ["authenticated(o)"],
             "appointments": ["sworn(o)"], "constraints": ["env.shift == 'night'"],
             "membership": ["authenticated(o)", "sworn(o)"]},
            {"role": "probationary-officer(o)", "prerequisites": ["police-officer(o)"],
             "appointments": ["probation(o)"], "membership": ["police-officer(o)", "probation(o)"]},
            {"role": "duty-officer(o, s)", "prerequisites": ["police-officer(o)"],
             "appointments": ["posted(o, s)"],
             "membership": ["police-officer(o)", "posted(o, s)"]},
        ],
        "privileges": [
            {"privilege": "subscribe(BurglaryEvent)", "role": "police-officer(o)"},
            {"privilege": "receive(BurglaryEvent, l)", "role": "probationary-officer(o)",
             "constraints": ["env.location == l"]},
            {"privilege": "advertise(BurglaryEvent)", "role": "duty-officer(o, s)"},
            {"privilege": "publish(BurglaryEvent)", "role": "duty-officer(o, s)"},
        ],
    }
)  # fmt: skip


def on_duty(officer: int, *appointments: str) -> Session:
    """Section 5, step 1: an officer comes on duty on the night shift."""
    session = Session(CITY)
    session.set({"shift": "night"})
    for text in (f"certificate({officer})", f"sworn({officer})", *appointments):
        assert session.appoint(text).ok
    for role in (f"authenticated({officer})", f"police-officer({officer})"):
        assert session.activate(role).ok
    return session


def test_the_two_officers_acquire_their_roles() -> None:
    one, two = on_duty(1, "probation(1)"), on_duty(2)
    for session in (one, two):
        assert session.permits("subscribe(BurglaryEvent)").ok
        assert not session.permits("publish(BurglaryEvent)").ok
    assert one.activate("probationary-officer(1)").ok
    refused = two.activate("probationary-officer(2)")
    assert "appointment `probation(2)` is not held" in refused.reason
    assert one.active == ("authenticated(1)", "police-officer(1)", "probationary-officer(1)")
    assert two.active == ("authenticated(2)", "police-officer(2)")


def test_the_restriction_of_officer_1_follows_where_he_is() -> None:
    # Step 8: "checking whether officer 1 is currently in West Cambridge"
    session = on_duty(1, "probation(1)")
    session.activate("probationary-officer(1)")
    west = 'receive(BurglaryEvent, "West Cambridge")'
    assert not session.permits(west).ok  # where he is was never said
    session.set({"location": "West Cambridge"})
    assert session.permits(west).ok
    session.set({"location": "Chesterton"})
    outcome = session.permits(west)
    assert not outcome.ok
    assert '`env.location` is `"Chesterton"`' in outcome.reason
    assert session.permits("receive(BurglaryEvent, Chesterton)").ok


def test_the_duty_officer_may_advertise_and_publish() -> None:
    session = on_duty(3, "posted(3, Parkside)")
    assert session.activate("duty-officer(3, Parkside)").ok
    assert session.permits("advertise(BurglaryEvent)").ok
    assert session.permits("publish(BurglaryEvent)").ok
    fallen = session.revoke("sworn(3)").fallen
    assert [each.role.text for each in fallen] == ["police-officer(3)", "duty-officer(3, Parkside)"]
    assert not session.permits("publish(BurglaryEvent)").ok


def test_coming_on_duty_outside_the_shift_is_refused_and_leaving_it_is_not_watched() -> None:
    session = on_duty(1)
    session.set({"shift": "day"})
    assert "police-officer(1)" in session.active  # the constraint is no membership condition
    session.deactivate("police-officer(1)")
    assert not session.activate("police-officer(1)").ok


@pytest.mark.parametrize(
    "role", ["police-officer(2)", "authenticated(2)", "duty-officer(1, Parkside)"]
)
def test_nobody_becomes_somebody_else(role: str) -> None:
    assert not on_duty(1).activate(role).ok


def test_the_sergeant_of_a_county() -> None:
    # Section 4: "domain-specific parameters, for example sergeant(Cambridgeshire)"
    policy = RolePolicy.from_json(
        {"rules": [{"role": "sergeant(c)", "appointments": ["promoted(c)"]},
                   {"role": "sergeant-on-duty", "prerequisites": ["sergeant(Cambridgeshire)"]}]}
    )  # fmt: skip
    session = Session(policy)
    session.appoint("promoted(Suffolk)")
    assert session.activate("sergeant(Suffolk)").ok
    assert not session.activate("sergeant-on-duty").ok
    session.appoint("promoted(Cambridgeshire)")
    session.activate("sergeant(Cambridgeshire)")
    assert session.activate("sergeant-on-duty").ok


def test_exclusion_of_individuals_and_relationships_between_them() -> None:
    # Section 3.2: treating-doctor(doctor-ID, patient-ID)
    policy = RolePolicy.from_json(
        {"rules": [{"role": "doctor(d)", "appointments": ["licence(d)"]},
                   {"role": "treating-doctor(d, p)", "prerequisites": ["doctor(d)"],
                    "appointments": ["refers(g, p, d)"], "constraints": ["p != 99", "g != 13"],
                    "membership": ["refers(g, p, d)"]}]}
    )  # fmt: skip
    session = Session(policy)
    for text in ("licence(7)", "refers(1, 5, 7)", "refers(1, 99, 7)", "refers(13, 6, 7)"):
        session.appoint(text)
    session.activate("doctor(7)")
    assert session.activate("treating-doctor(7, 5)").ok
    assert "`p != 99` is not met" in session.activate("treating-doctor(7, 99)").reason
    assert "`g != 13` is not met" in session.activate("treating-doctor(7, 6)").reason
    assert not session.activate("treating-doctor(5, 7)").ok


def test_the_rules_of_the_city_fit_together() -> None:
    assert findings(CITY) == ()
