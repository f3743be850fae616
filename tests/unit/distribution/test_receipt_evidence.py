"""What each kind of revocation took away, and what may be said of its receipt from the logs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from adminapp.distribution import activity, endings, evidence, rights, services
from adminapp.distribution.activity import CheckRow
from adminapp.distribution.evidence import FOREVER
from adminapp.distribution.models import (
    ActivityRun,
    DecisionSegment,
    Notice,
    Recipient,
    Revocation,
    RevocationCheck,
    RevokedRight,
)
from adminapp.identity import services as identity
from adminapp.identity.models import Agent, Domain, Principal
from adminapp.policies import services as policies
from adminapp.policies.models import Policy
from adminapp.roles import services as roles
from adminapp.roles.models import Appointment, Role
from adminapp.trustgroups.models import TrustGroup
from tests.support.audiences import Plane
from tests.unit.distribution.inspected import heating
from tests.unit.distribution.test_guests import Town

__all__ = ["heating"]

INSPECTOR = "X-104212"
WHOLE = [{"action": "", "type": "", "policy": "", "before": FOREVER, "partly": False}]


@pytest.fixture
def logged(plane: Plane, heating: Domain) -> Domain:
    """The heating company with decision logs."""
    return keep_logs(plane, heating)


def keep_logs(plane: Plane, domain: Domain) -> Domain:
    domain.refresh_from_db()
    identity.update_domain(actor=None, domain=domain, data={"decision_days": 30})
    plane.settle()
    domain.refresh_from_db()
    return domain


def inspector() -> Principal:
    return Principal.objects.get(name=INSPECTOR)


def revoke(target: endings.Target) -> Revocation:
    return services.revoke(actor=None, target=target, reason="it is over")


def ended(policy: str, type_: str, **changes: Any) -> dict[str, Any]:
    held = {"action": "deliver", "type": type_, "policy": policy}
    return {**held, "before": FOREVER, "partly": False, **changes}


def wire(name: str) -> str:
    return f"policy-{Policy.objects.get(name=name).pk}"


def table(domain: Domain) -> dict[tuple[str, str], tuple[int, list[dict[str, Any]]]]:
    """What logs are held against: (party, name) -> floor and what ended."""
    found = {}
    for _, party, name, since, until, floor, over in evidence.table(domain):
        assert until >= since + domain.lease_seconds * 1000
        found[party, name] = (floor, sorted(over, key=str))
    return found


BY_ROLE: dict[str, Callable[[], endings.Target]] = {
    "appointment": lambda: endings.appointment(Appointment.objects.active().get(name="inspection")),
    "role-holder": lambda: endings.holder(inspector(), "auditor"),
    "role": lambda: endings.role(Role.objects.get(name="inspector")),
}


@pytest.mark.parametrize("kind", BY_ROLE)
def test_of_a_role_only_what_rested_on_it_is_held_against_logs(logged: Domain, kind: str) -> None:
    revocation = revoke(BY_ROLE[kind]())
    assert revocation.revision > 0
    assert table(logged) == {
        ("client", inspector().handle): (
            revocation.revision, [ended(wire("audit"), "Statistics")],
        )
    }  # fmt: skip


def test_of_an_attribute_what_it_was_good_for(logged: Domain) -> None:
    revocation = revoke(endings.attribute(inspector(), "consumer"))
    ((party, handle),) = table(logged)
    assert (party, handle) == ("client", inspector().handle)
    floor, over = table(logged)["client", handle]
    assert floor == revocation.revision
    assert {one["type"] for one in over} == {
        line.type for line in _readable(logged) if line.type != "Statistics"
    }
    assert wire("audit") not in {one["policy"] for one in over}
    assert not any(one["partly"] for one in over)


def _readable(domain: Domain) -> list[Any]:
    """What another home with that attribute may read."""
    from adminapp.policies import reach

    return list(reach.take(domain).effective("X-104211", "subscribe"))


def test_of_a_principal_or_its_keys_everything(plane: Plane, logged: Domain) -> None:
    other = Principal.objects.get(name="X-104211")
    services.revoke_principal(actor=None, principal=other, reason="left")
    revoke(endings.client_key(inspector()))
    assert table(logged) == {
        ("client", other.handle): (0, WHOLE),
        ("client", inspector().handle): (0, WHOLE),
    }
    plane.settle()
    assert table(logged)["client", inspector().handle] == (0, WHOLE)
    plane.client(inspector())
    plane.settle()
    (entry,) = table(logged)["client", inspector().handle][1]
    logged.refresh_from_db()
    assert RevokedRight.objects.filter(revocation__kind="client-key").exists()
    assert 0 < entry["before"] <= logged.revision
    assert table(logged)["client", other.handle] == (0, WHOLE)


def test_of_an_agent_what_it_decides_itself(plane: Plane, logged: Domain) -> None:
    beta = Agent.objects.get(name="beta")
    (revocation,) = services.revoke_agent(actor=None, agent=beta, reason="stolen")
    assert table(logged) == {("agent", "beta"): (0, WHOLE)}
    (right,) = revocation.rights.all()
    assert right.until >= datetime.fromisoformat(revocation.before["own_lease"])


def test_of_a_member_what_it_decides_under_the_old_policy(logged: Domain) -> None:
    revocation = revoke(endings.member(TrustGroup.objects.get(), Agent.objects.get(name="beta")))
    assert table(logged) == {("agent", "beta"): (0, [{**WHOLE[0], "before": revocation.revision}])}


def test_what_a_policy_gives_in_part_still_counts_under_the_old_policy_only(
    plane: Plane, logged: Domain
) -> None:
    policy = Policy.objects.get(name="audit")
    policies.update_policy(
        actor=None,
        policy=policy,
        data={"expression": 'subject.role == "auditor" || event.homes > 100'},
    )
    plane.settle()
    revocation = revoke(BY_ROLE["appointment"]())
    ((_, over),) = table(logged).values()
    assert over == [ended(wire("audit"), "Statistics", before=revocation.revision, partly=True)]


def test_what_is_given_again_counts_from_its_revision_on(plane: Plane, logged: Domain) -> None:
    revoke(BY_ROLE["appointment"]())
    plane.settle()
    ((_, over),) = table(logged).values()
    assert over == [ended(wire("audit"), "Statistics")]
    roles.appoint(actor=None, principal=inspector(), name="inspection")
    logged.refresh_from_db()
    granted = logged.revision
    ((_, over),) = table(logged).values()
    assert over == [ended(wire("audit"), "Statistics")]  # no agent can have it yet
    plane.settle()
    ((_, over),) = table(logged).values()
    assert over == [ended(wire("audit"), "Statistics", before=granted)]
    # A second end is a revocation of its own; the first one's is told by its revision still.
    second = revoke(BY_ROLE["appointment"]())
    plane.settle()
    found = {row[0]: row for row in evidence.table(logged)}
    assert found[second.uid][-1] == [ended(wire("audit"), "Statistics")]
    assert sorted(one["before"] for row in found.values() for one in row[-1]) == [granted, FOREVER]


# -- guests --------------------------------------------------------------------------------------


@pytest.fixture
def town(plane: Plane) -> Town:
    """Police with decision logs, and firemen who read of incidents by an agreement."""
    made = Town(plane)
    made.permit("officers", 'subject.role == "officer"')
    made.agreement = made.agree()
    keep_logs(plane, made.police)
    return made


def test_of_an_agreement_what_its_guests_read(plane: Plane, town: Town) -> None:
    revocation = revoke(endings.agreement(town.agreement, "provider"))
    chief = Principal.objects.get(name="chief").handle
    floor = revocation.revision
    policy = f"{wire('officers')}a{town.agreement.pk}"
    assert table(town.police) == {("client", chief): (floor, [ended(policy, "Incident")])}
    assert table(town.fire) == {}
    plane.settle()
    check = evidence.check(revocation)
    assert {one.domain for one in check.agents} == {"police"}


def test_of_a_guest_what_it_had_where_it_visited(plane: Plane, town: Town) -> None:
    """The revocation is the fire brigade's; the logs that tell of it are the police's."""
    lost = revoke(endings.appointment(Appointment.objects.get(principal__name="chief")))
    chief = Principal.objects.get(name="chief")
    policy = f"{wire('officers')}a{town.agreement.pk}"
    ((place, (floor, over)),) = table(town.police).items()
    assert (place, over) == (("client", chief.handle), [ended(policy, "Incident")])
    town.police.refresh_from_db()
    assert 0 < floor <= town.police.revision
    assert lost.domain == town.fire
    gone = services.revoke_principal(actor=None, principal=chief, reason="left")
    rows = gone.rights.order_by("domain__name")
    assert [row.domain.name for row in rows] == ["fire", "police"]
    # The brigade keeps no logs of its own, so of that part nothing can ever be told.
    assert [row.state for row in rows] == ["unlogged", "watched"]
    cover(town.police, gone, "alpha", "beta")
    assert (evidence.check(gone).verdict, evidence.check(gone).reasons) == (
        "unknown", ("unlogged",),
    )  # fmt: skip


# -- what may be said ----------------------------------------------------------------------------


def ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def cover(domain: Domain, revocation: Revocation, *agents: str, **changes: Any) -> None:
    """Have agents' logs counted, from the revocation until a minute after its guarantee."""
    members = {
        "domain": domain, "stream": "s", "sequence": 1, "records": 0, "state": "counted",
        "begin": ms(revocation.created) - 1000,
        "end": ms(revocation.created) + domain.lease_seconds * 1000 + 60_000,
    }  # fmt: skip
    for agent in agents:
        DecisionSegment.objects.create(**{**members, "agent": agent, **changes})


def said(revocation: Revocation) -> tuple[str, tuple[str, ...]]:
    found = evidence.check(revocation)
    return found.verdict, found.reasons


def test_none_is_said_only_where_nothing_is_missing(logged: Domain) -> None:
    revocation = revoke(BY_ROLE["appointment"]())
    assert said(revocation)[0] == "waiting"
    cover(logged, revocation, "alpha")
    assert said(revocation) == ("unknown", ("silent",))
    cover(logged, revocation, "beta")
    assert said(revocation) == ("none", ())
    segments = DecisionSegment.objects.filter(agent="beta")
    segments.update(lost=3)
    assert said(revocation) == ("unknown", ("lost",))
    segments.update(lost=0, begin=ms(revocation.created) + 5000)
    assert said(revocation) == ("unknown", ("holes",))
    segments.update(begin=0, end=ms(revocation.created) + 100)
    assert said(revocation) == ("unknown", ("short",))
    segments.update(end=ms(timezone.now()) + 10**7, state="broken")
    assert said(revocation) == ("unknown", ("silent",))


def test_the_word_of_a_distrusted_agent_is_no_evidence(logged: Domain) -> None:
    revocation = revoke(BY_ROLE["appointment"]())
    cover(logged, revocation, "alpha", "beta")
    Recipient.objects.filter(audience="agent:beta").update(state="contradicts")
    assert said(revocation) == ("unknown", ("distrusted",))
    Recipient.objects.filter(audience="agent:beta").update(state="applied")
    assert said(revocation) == ("none", ())
    # Banned, it serves nothing any longer; that it was told of the revocation is known still.
    Agent.objects.filter(name="alpha").update(state="banned")
    DecisionSegment.objects.filter(agent="alpha").delete()
    assert Notice.objects.get(revocation=revocation).audience == "agent:alpha"
    assert said(revocation) == ("unknown", ("distrusted", "silent"))


def test_of_a_revoked_agent_nothing_is_ever_said_but_that_it_did(logged: Domain) -> None:
    (revocation,) = services.revoke_agent(
        actor=None, agent=Agent.objects.get(name="beta"), reason="stolen"
    )
    cover(logged, revocation, "alpha", "beta")
    assert said(revocation) == ("unknown", ("distrusted",))
    assert [one.agent for one in evidence.check(revocation).agents] == ["beta"]
    found(logged, revocation, after=1, contradicting=("beta",))
    assert said(revocation)[0] == "broken"


# Of the same day, also where midnight passes between two counts.
TODAY = timezone.now().date()


def found(domain: Domain, revocation: Revocation, **changes: Any) -> None:
    """Have a count find something today."""
    numbers = dict.fromkeys(("within", "after", "unclear", "early", "refused", "last"), 0)
    row = CheckRow(
        revocation=revocation.uid, day=TODAY, agents=("alpha",),
        **{"decisions": 5, "contradicting": (), **numbers, **changes},
    )  # fmt: skip
    run = ActivityRun.objects.create(domain=domain, cause="test")
    activity.keep(run, [], [row.day.isoformat()], [], [row])


def test_what_was_found_is_said_with_its_agents(logged: Domain) -> None:
    revocation = revoke(BY_ROLE["appointment"]())
    cover(logged, revocation, "alpha", "beta")
    found(logged, revocation, early=2, refused=1)
    check = evidence.check(revocation)
    assert (check.verdict, check.early, check.refused) == ("none", 2, 1)
    found(logged, revocation, unclear=2)
    assert said(revocation) == ("unknown", ("unclear",))
    found(logged, revocation, after=4, contradicting=("alpha",))
    check = evidence.check(revocation)
    assert (check.verdict, check.after, check.contradicting) == ("broken", 4, ("alpha",))
    assert evidence.contradicted() == 1
    assert RevocationCheck.objects.count() == 1


def test_what_was_found_stays_when_the_logs_leave(logged: Domain) -> None:
    revocation = revoke(BY_ROLE["appointment"]())
    cover(logged, revocation, "alpha", "beta")
    found(logged, revocation, within=1)
    revocation.refresh_from_db()
    assert revocation.held_against["verdict"] == "none"
    Revocation.objects.filter(pk=revocation.pk).update(created=timezone.now() - timedelta(days=31))
    assert rights.expire(logged) == 1
    DecisionSegment.objects.all().delete()
    revocation.refresh_from_db()
    check = evidence.check(revocation)
    assert (check.verdict, check.reasons, check.within) == ("none", (), 1)
    assert check.settled is not None
    assert table(logged) == {}
    # What was never looked at is not "none" because the logs are gone.
    Revocation.objects.update(held_against={})
    revocation.refresh_from_db()
    assert said(revocation) == ("unknown", ("expired",))
    # A count of later days leaves what was found before alone.
    found(logged, revocation)
    assert RevocationCheck.objects.get().within == 1


def test_without_logs_or_without_a_record_nothing_is_claimed(plane: Plane, heating: Domain) -> None:
    revocation = revoke(BY_ROLE["appointment"]())
    assert said(revocation) == ("off", ("unlogged",))
    keep_logs(plane, heating)
    assert said(revocation) == ("off", ("unlogged",))  # logs of later say nothing certain of it
    revocation.rights.all().delete()
    assert said(revocation) == ("unknown", ("unrecorded",))
    Revocation.objects.update(before={})
    revocation.refresh_from_db()
    assert said(revocation) == ("unknown", ("unrecorded",))
    Revocation.objects.update(before={"rights": 0})
    revocation.refresh_from_db()
    assert said(revocation) == ("nothing", ())


def test_more_than_is_told_apart_is_said(logged: Domain, monkeypatch: Any) -> None:
    from adminapp.distribution import losses

    monkeypatch.setattr(losses, "LINES", 1)
    revocation = revoke(BY_ROLE["appointment"]())
    cover(logged, revocation, "alpha", "beta")
    assert said(revocation) == ("unknown", ("more",))
    assert table(logged)  # what is known is held against logs all the same


def test_logs_that_were_switched_off_meanwhile_are_not_counted_on(
    plane: Plane, logged: Domain
) -> None:
    revocation = revoke(BY_ROLE["appointment"]())
    identity.update_domain(actor=None, domain=logged, data={"decision_days": 0})
    plane.settle()
    assert {row.state for row in revocation.rights.all()} == {"expired"}
    keep_logs(plane, logged)
    assert table(logged) == {}
    assert said(revocation) == ("unknown", ("expired",))
