"""The control plane dies again and again while it carries out revocations, and goes on.

A life ends before one of its writes to the database, wherever that is: the first before the write
with the number that is played, later ones every so often, each a little later than the one before
so that no transaction is too long for ever. There are about 290 writes; `make soak` lets each of
the first 280 be the one that is not done.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from adminapp.distribution import services
from adminapp.distribution.models import RecomputeJob, Revocation, RevocationEvent, Rollout
from adminapp.outbox.models import OutboxRow
from brokers.simulation.chance import Chance
from tests.support.live_agents import LiveSite
from tests.unit.distribution.inspected import heating, publish, site
from tests.unit.distribution.test_revocation_orders import (
    check,
    finish,
    revoke_inspection,
    revoke_principal,
)

__all__ = ["heating", "site"]

SEED = os.environ.get("PORTCULLIS_DEATHS_SEED", "2026")
STRIDE = 40
"""Writes from one death to the next, at first."""
PLAYS = int(os.environ.get("PORTCULLIS_DEATHS_PLAYS", "0"))
"""Up to which number all are played; 0 for a single one that the seed gives."""
FIRST = range(1, PLAYS + 1) if PLAYS else Chance(SEED).sample(range(1, STRIDE + 1), 1)
ROUNDS = 150


class Killed(BaseException):
    """The process died here."""


class Deadly:
    """Lets a process die before one of its next writes to the database.

    Args:
        left: the write that it does not live to do, from 1.
    """

    def __init__(self, left: int) -> None:
        self._left = left

    def __call__(self, execute: Any, sql: str, *rest: Any) -> Any:
        if sql.startswith(("INSERT", "UPDATE", "DELETE")):
            self._left -= 1
            if self._left == 0:
                raise Killed
        return execute(sql, *rest)


def live(site: LiveSite, deadly: Deadly) -> bool:
    """A round of the control plane; whether it ended in death."""
    try:
        with connection.execute_wrapper(deadly):
            services.reconcile()
            site.control()
    except Killed:
        # A write of its own, in no transaction but the test's: it was not done, and nothing else
        # was. Django would have the test's taken back whole.
        connection.set_rollback(False)
        return True
    return False


def time_passes() -> None:
    """What the dead had claimed is found out after a while, and free for the next one."""
    OutboxRow.objects.filter(state=OutboxRow.State.CLAIMED).update(state=OutboxRow.State.PENDING)
    long_ago = timezone.now() - timedelta(minutes=5)
    RecomputeJob.objects.filter(state=RecomputeJob.State.RUNNING).update(heartbeat=long_ago)


def kinds(revocation: Revocation) -> list[str]:
    return list(
        RevocationEvent.objects.filter(revocation=revocation).values_list("kind", flat=True)
    )


@pytest.mark.parametrize("first", FIRST)
def test_it_goes_on_after_every_death(site: LiveSite, first: int) -> None:
    revocations = [revoke_principal("X-104211"), revoke_inspection()]
    deaths, deadly = 0, Deadly(first)
    for _ in range(ROUNDS):
        if live(site, deadly):
            deaths += 1
            deadly = Deadly(STRIDE + 2 * deaths)
            time_passes()
        for agent in site.agents.values():
            agent.step()
        site._note()
        for each in revocations:
            each.refresh_from_db()
        if all(each.state == "complete" for each in revocations):
            break
    assert deaths > (0 if PLAYS else 5)
    finish(site, *revocations)
    check(site, publish(site))
    # Whatever was done twice is there once.
    assert Rollout.objects.count() == 1
    for each in revocations:
        assert each.receipt["body"]["unreachable"] == []
        told = each.notices.count()
        assert [kinds(each).count(kind) for kind in ("notice-applied", "complete")] == [told, 1]
    assert kinds(revocations[0]).count("recomputed") == 1
