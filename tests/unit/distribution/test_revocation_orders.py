"""Revocations at once and beside a rollout; what is delivered is looked at by itself."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from adminapp.distribution import endings, services
from adminapp.distribution.models import Notice, Revocation, Rollout
from adminapp.roles.models import Appointment
from tests.support.known_keys import held_tag_keys
from tests.support.live_agents import LiveSite
from tests.unit.distribution.inspected import heating, publish, site

__all__ = ["heating", "site"]


def revoke_principal(name: str) -> Revocation:
    return services.revoke_principal(actor=None, principal=held_tag_keys(name), reason="moved away")


def revoke_inspection() -> Revocation:
    return services.revoke(
        actor=None,
        target=endings.appointment(Appointment.objects.get(name="inspection")),
        reason="it is over",
    )


def finish(site: LiveSite, *revocations: Revocation) -> None:
    for _ in range(60):
        site.run(1)
        services.advance_all()
        for each in revocations:
            each.refresh_from_db()
        if all(each.state == "complete" for each in revocations):
            return
    raise AssertionError([each.state for each in revocations])


def check(site: LiveSite, later: dict[str, str]) -> None:
    """Nothing that was published after the notices arrived reached who lost it; nobody else
    missed anything.
    """
    site.run()
    assert later["first"] not in site.received("X-104211")
    assert later["statistics"] not in site.received("X-104212")
    assert later["second"] in site.received("X-104212")


def test_two_at_once_share_one_epoch(site: LiveSite) -> None:
    first, second = revoke_principal("X-104211"), revoke_principal("X-104377")
    third = revoke_inspection()
    finish(site, first, second, third)
    check(site, publish(site))
    assert first.rollout_id == second.rollout_id is not None
    assert first.epoch_to == second.epoch_to == 2
    assert third.rollout_id is None
    assert Notice.objects.filter(audience="agent:alpha").count() == 3


def test_one_that_comes_while_another_runs_stops_at_once_and_follows(site: LiveSite) -> None:
    site.cut.add("beta")  # nothing reaches it, so the running rollout waits for it
    running = revoke_principal("X-104377")
    site.run(3)
    Rollout.objects.update(stage_started=timezone.now() + timedelta(hours=1))
    urgent, policy = revoke_principal("X-104211"), revoke_inspection()
    site.run()
    running.refresh_from_db()
    assert running.state == "staging"
    assert not Notice.objects.exclude(state="applied").exists()
    check(site, publish(site))
    finish(site, policy)  # it needs no epoch, so it waits for none
    urgent.refresh_from_db()
    assert (running.state, urgent.state) == ("staging", "noticed")
    site.cut.clear()
    Rollout.objects.update(stage_started=timezone.now())
    finish(site, running, urgent)
    assert urgent.rollout_id != running.rollout_id
    assert urgent.epoch_to == running.epoch_to + 1
    check(site, publish(site))


def test_a_member_and_a_principal_at_once_move_keys_and_encodings_together(
    site: LiveSite,
) -> None:
    from adminapp.identity.models import Agent
    from adminapp.trustgroups.models import TrustGroup

    target = endings.member(TrustGroup.objects.get(), Agent.objects.get(name="beta"))
    first = services.revoke(actor=None, target=target, reason="distrusted")
    second = revoke_principal("X-104211")
    finish(site, first, second)
    assert first.rollout_id == second.rollout_id
    assert first.receipt["body"]["keys_replaced"] == ["key:consumer 2"]
    assert second.receipt["body"]["epochs"] == {"from": 1, "to": 2}
