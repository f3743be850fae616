"""A guest's appointment ends: what real agents then log, counted by Spark and held against it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from adminapp.distribution import activity, endings, evidence, services
from adminapp.distribution.evidence import ReceiptCheck
from adminapp.distribution.models import Revocation
from adminapp.identity import services as identity
from adminapp.identity.models import Domain
from adminapp.roles import services as roles
from adminapp.roles.models import Appointment
from tasks import activity as task
from tests.spark.test_activity_journey import Field, backdate, in_this_session
from tests.support.audiences import Plane, live_authority, plane
from tests.unit.distribution.test_guests import Town

__all__ = ["live_authority", "plane"]


class LoggedTown(Field):
    """Police and fire brigade with decision logs, and the agents of the police's events."""

    def __init__(self, plane: Plane, folder: Path) -> None:
        self.town = Town(plane)
        self.town.permit("officers", 'subject.role == "officer"')
        self.town.agree()
        for domain in (self.town.police, self.town.fire):
            identity.update_domain(actor=None, domain=domain, data={"decision_days": 30})
        plane.settle()
        super().__init__(plane, "police", folder)
        self.event = {"place": "N", "level": "1", "victim": "somebody"}
        self.subscribe("chief", "Incident")
        self.subscribe("officer", "Incident")
        self.run()

    def incident(self) -> None:
        self.publish("dispatch", "Incident")

    def dismiss(self) -> Revocation:
        """The brigade takes the chief's appointment; T0 is now by the agents' clock."""
        held = Appointment.objects.active().get(principal__name="chief")
        made = services.revoke(actor=None, target=endings.appointment(held), reason="retired")
        backdate(made, self.clock.time)
        return made

    def wait(self) -> None:
        """Past the guarantee's moment."""
        self.run(self.town.police.lease_seconds + 1.0)

    def count(self, spark: SparkSession, revocation: Revocation) -> ReceiptCheck:
        self.ship()
        run = activity.request_run(actor=None, domain=Domain.objects.get(name="police"))
        task.run(run.pk, beat=lambda: None, follow=in_this_session(spark))
        run.refresh_from_db()
        assert (run.state, run.error) == ("done", "")
        revocation.refresh_from_db()
        return evidence.check(revocation)


@pytest.fixture
def town(plane: Plane, settings: Any, tmp_path: Path) -> Iterator[LoggedTown]:
    settings.VAR_DIR = tmp_path / "var"
    (tmp_path / "agents").mkdir()
    made = LoggedTown(plane, tmp_path / "agents")
    yield made
    made.close()


def test_agents_that_go_on_are_found_and_what_is_given_again_is_none_of_it(
    town: LoggedTown, spark: SparkSession
) -> None:
    town.incident()
    revocation = town.dismiss()
    town.incident()  # within the lease
    town.wait()
    town.incident()  # too late: nobody told these agents
    town.refresh()
    town.incident()  # they know
    chief = town.town.chief
    roles.appoint(actor=None, principal=chief, name="fireman")
    town.refresh()
    town.incident()  # appointed again
    town.incident()
    check = town.count(spark, revocation)
    assert (check.verdict, check.within, check.after) == ("broken", 1, 1)
    assert check.contradicting == ("beta",)
    assert (check.unclear, check.early) == (0, 0)
    assert revocation.held_against["verdict"] == "broken"


def test_agents_that_obey_are_cleared_once_their_logs_reach_far_enough(
    town: LoggedTown, spark: SparkSession
) -> None:
    town.incident()
    revocation = town.dismiss()
    town.refresh()
    town.incident()
    check = town.count(spark, revocation)
    assert (check.verdict, check.within, check.after) == ("unknown", 0, 0)
    assert check.reasons == ("short",)
    town.wait()
    town.incident()
    check = town.count(spark, revocation)
    assert (check.verdict, check.reasons, check.after) == ("none", (), 0)
    assert {one.agent for one in check.agents} >= {"alpha", "beta"}
    assert check.decisions >= 2
