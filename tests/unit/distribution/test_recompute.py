"""A run over a new epoch: who takes it, what a broken pipeline does, what is never published."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from adminapp.distribution import recompute as service
from adminapp.distribution import selectors, services
from adminapp.distribution.models import EncodedItem, EncodingEpoch, RecomputeJob, Revocation
from tasks import recompute
from tests.support.audiences import Plane
from tests.support.kept_planes import PlaneKeeper
from tests.support.known_keys import held_tag_keys
from tests.unit.distribution.conftest import at_rest


@pytest.fixture
def revocation(plane: Plane, planes: PlaneKeeper) -> Revocation:
    """A revocation whose run is ordered and not begun."""
    heating = at_rest(plane, planes, "heating")
    plane.lease_all()
    made = services.revoke_principal(
        actor=None, principal=held_tag_keys("X-104211"), reason="moved"
    )
    services.advance_domain(heating.pk)
    return made


def job() -> RecomputeJob:
    return RecomputeJob.objects.get()


def test_one_worker_takes_a_run_until_it_falls_silent(revocation: Revocation) -> None:
    assert service.take(job().pk) is not None
    assert service.take(job().pk) is None
    RecomputeJob.objects.update(heartbeat=timezone.now() - timedelta(seconds=31))
    again = service.take(job().pk)
    assert again is not None
    assert again.attempts == 2


def test_a_run_for_an_epoch_that_moved_on_is_not_taken(revocation: Revocation) -> None:
    EncodingEpoch.objects.filter(number=2).update(state="staged")
    assert service.take(job().pk) is None


def test_a_broken_pipeline_slows_a_revocation_down_and_does_not_stop_it(
    plane: Plane, revocation: Revocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise recompute.RunFailed("the pipeline ended with status 1")

    monkeypatch.setattr(recompute, "_run_pipeline", broken)
    for _ in range(2):
        with pytest.raises(recompute.RunFailed):
            recompute.run(job().pk, beat=lambda: None)
    recompute.run(job().pk, beat=lambda: None)
    assert (job().state, job().attempts) == ("failed", 3)
    assert "status 1" in job().error
    plane.settle()
    revocation.refresh_from_db()
    assert revocation.state == "complete"
    kinds = [event.kind for event in selectors.revocation_timeline(revocation.uid).events]
    assert kinds.count("recompute-failed") == 3
    assert plane.audiences["agent:alpha"].agent("heating").epochs[0].epoch == 2


def test_small_runs_without_a_revocation_stay_in_the_process(
    revocation: Revocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    RecomputeJob.objects.update(cause="size")

    def never(*_: Any) -> None:
        raise AssertionError("Spark was started for a few rows")

    monkeypatch.setattr(recompute, "_run_pipeline", never)
    recompute.run(job().pk, beat=lambda: None)
    assert job().state == "done"
    assert EncodedItem.objects.filter(epoch__number=2).count() == job().rows_total > 0


def test_rows_are_imported_only_while_the_epoch_is_in_preparation(
    revocation: Revocation,
) -> None:
    taken = service.take(job().pk)
    assert taken is not None
    row = service.Encoded("alpha", "rule", "1.0", 0, b"x", "0" * 64)
    unknown = service.Encoded("omega", "rule", "1.0", 0, b"x", "0" * 64)
    assert service.keep(taken, [row, unknown]) == 1
    EncodingEpoch.objects.filter(number=2).update(state="staged")
    assert service.keep(taken, [row]) == 0


def test_an_encoding_of_other_tokens_is_not_used(plane: Plane, revocation: Revocation) -> None:
    """A row that a run made from tokens that changed since is made anew by the compiler."""
    taken = service.take(job().pk)
    assert taken is not None
    load = service.workload(taken)
    agent = next(agent for agent in load.agents if agent.name == "alpha")
    stale = [
        service.Encoded("alpha", item.kind, item.key, item.position, b"stale", "0" * 64)
        for item in agent.items
    ]
    service.keep(taken, stale)
    service.finish(taken)
    plane.settle()
    assert not EncodedItem.objects.filter(encoded=b"stale").exists()


def test_progress_is_kept_by_stage_and_never_goes_back(revocation: Revocation) -> None:
    taken = service.take(job().pk)
    assert taken is not None
    service.progress(taken, "reading", 20, 20)
    service.progress(taken, "encoding", 5, 20)
    service.progress(taken, "encoding", 9, 20)
    stages = {entry["stage"]: entry["done"] for entry in job().stages}
    assert stages == {"reading": 20, "encoding": 9}
    assert job().rows_done == 20
