"""Agents' decision logs at the control plane: whose they are, once each, sealed until counted."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from django.utils import timezone

from adminapp.core.errors import Invalid
from adminapp.distribution import activity, decisionlogs, services
from adminapp.distribution.models import ActivityRun, DecisionSegment
from adminapp.identity import services as identity
from adminapp.identity.models import Domain
from adminapp.outbox.models import OutboxRow
from policyengine.bundles import (
    DecisionReport,
    DecisionRow,
    seal_decisions,
    sign_decision_report,
)
from policyengine.primitives.signatures import generate_signing_key
from tasks import activity as task
from tests.support.audiences import Plane

STREAM = "ab" * 16


@pytest.fixture
def logged(plane: Plane, heating: Domain, settings: Any, tmp_path: Path) -> Domain:
    """A domain that keeps decisions for 30 days, and agents that were told so."""
    settings.VAR_DIR = tmp_path
    identity.update_domain(actor=None, domain=heating, data={"decision_days": 30})
    plane.settle()
    heating.refresh_from_db()
    return heating


def now_ms() -> int:
    return int(timezone.now().timestamp() * 1000)


def rows_of(at: int, number: int) -> list[DecisionRow]:
    return [
        DecisionRow(
            at, 7, 1, "deliver", f"p-{n}", "Telemetry", "granted", "", ("policy-1",), ("s",), 1
        )
        for n in range(number)
    ]


def report(plane: Plane, domain: Domain, rows: list[DecisionRow], **changes: Any) -> bytes:
    alpha = plane.audiences["agent:alpha"]
    content = alpha.bundles[domain.name].content
    begin = now_ms() - 60_000
    members = {
        "audience": alpha.address, "domain": domain.name, "stream": STREAM, "sequence": 1,
        "begin": begin, "end": begin + 30_000, "lost": 0, "records": len(rows),
    }  # fmt: skip
    members |= {name: value for name, value in changes.items() if name != "key"}
    sealed = seal_decisions(
        [row.to_line() for row in rows],
        recipient=content.decisions.key,
        **{name: members[name] for name in ("domain", "audience", "stream", "sequence")},
    )
    made = DecisionReport(**members, sealed=sealed)
    return sign_decision_report(made, changes.get("key", alpha.signing)).encode()


def test_bundles_say_how_decisions_are_kept_only_where_they_are(
    plane: Plane, compiled_heating: Domain
) -> None:
    alpha = plane.audiences["agent:alpha"]
    assert alpha.bundles["heating"].content.decisions is None
    identity.update_domain(actor=None, domain=compiled_heating, data={"decision_days": 7})
    plane.settle()
    assert alpha.bundles["heating"].content.decisions.days == 7


def test_a_segment_is_kept_once_and_sealed_until_it_is_in_parquet(
    plane: Plane, logged: Domain, tmp_path: Path
) -> None:
    at = now_ms()
    body = report(plane, logged, rows_of(at, 3))
    plane.receive(body)
    plane.receive(body)
    (segment,) = DecisionSegment.objects.all()
    assert (segment.agent, segment.records, segment.state) == ("alpha", 3, "received")
    assert b"Telemetry" not in bytes(segment.data)
    assert task.store(logged) == 1
    assert task.store(logged) == 0
    segment.refresh_from_db()
    assert (segment.state, segment.data) == ("stored", None)
    (path,) = (tmp_path / "decisions").rglob("*.parquet")
    assert path.parent.name == "agent=alpha"
    day = datetime.fromtimestamp(at / 1000, UTC).date()
    assert path.parent.parent.name == f"date={day.isoformat()}"
    assert [row["client"] for row in pq.ParquetFile(path).read().to_pylist()] == [
        "p-0", "p-1", "p-2",
    ]  # fmt: skip


def test_what_does_not_verify_or_cannot_be_is_not_kept(plane: Plane, logged: Domain) -> None:
    rows = rows_of(now_ms(), 1)
    plane.receive(report(plane, logged, rows, key=generate_signing_key()))
    plane.receive(report(plane, logged, rows, audience="agent:beta"))
    plane.receive(report(plane, logged, rows, end=now_ms() + 10**8))
    assert not DecisionSegment.objects.exists()


def test_a_segment_that_does_not_open_is_set_aside_and_the_others_go_on(
    plane: Plane, logged: Domain
) -> None:
    plane.receive(report(plane, logged, rows_of(now_ms(), 1), records=2))
    plane.receive(report(plane, logged, rows_of(now_ms(), 1), sequence=2))
    assert task.store(logged) == 1
    assert list(DecisionSegment.objects.order_by("sequence").values_list("state", flat=True)) == [
        "broken",
        "stored",
    ]


def test_holes_are_known() -> None:
    held = decisionlogs.Coverage("alpha", ((10, 20), (30, 40)), 40)
    assert held.missing(0, 50) == ((0, 10), (20, 30), (40, 50))
    assert held.missing(12, 18) == ()
    assert held.missing(15, 35) == ((20, 30),)
    assert decisionlogs.Coverage("beta", (), 0).missing(5, 9) == ((5, 9),)


def test_coverage_speaks_of_every_agent_and_counts_only_what_was_counted(
    plane: Plane, logged: Domain
) -> None:
    plane.receive(report(plane, logged, rows_of(now_ms(), 1)))
    task.store(logged)
    found = {one.agent: one for one in decisionlogs.coverage(logged, 0)}
    assert set(found) >= {"alpha"}
    assert found["alpha"].spans == ()
    DecisionSegment.objects.update(state="counted")
    (alpha,) = [one for one in decisionlogs.coverage(logged, 0) if one.agent == "alpha"]
    assert len(alpha.spans) == 1


def test_a_run_is_asked_for_once_and_only_where_logs_are_kept(
    plane: Plane, logged: Domain, heating: Domain
) -> None:
    run = activity.request_run(actor=None, domain=logged)
    assert activity.request_run(actor=None, domain=logged) == run
    assert OutboxRow.objects.filter(topic="activity").count() == 1
    assert activity.request_daily() == 0
    identity.update_domain(actor=None, domain=logged, data={"decision_days": 0})
    logged.refresh_from_db()
    with pytest.raises(Invalid):
        activity.request_run(actor=None, domain=logged)


def test_a_run_that_fails_is_tried_again_and_then_shown_as_failed(
    plane: Plane, logged: Domain
) -> None:
    plane.receive(report(plane, logged, rows_of(now_ms(), 1)))
    run = activity.request_run(actor=None, domain=logged)
    for _ in range(2):
        with pytest.raises(task.RunFailed):
            task.run(run.pk, beat=lambda: None, follow=lambda *_: 1)
    task.run(run.pk, beat=lambda: None, follow=lambda *_: 1)
    run.refresh_from_db()
    assert (run.state, run.attempts) == (ActivityRun.State.FAILED, 3)
    assert "status 1" in run.error
    assert DecisionSegment.objects.get().state == "stored"


def test_logs_leave_when_their_time_is_over(plane: Plane, logged: Domain, tmp_path: Path) -> None:
    old = now_ms() - 40 * 86_400_000
    plane.receive(report(plane, logged, rows_of(old, 1), begin=old, end=old + 1))
    plane.receive(report(plane, logged, rows_of(now_ms(), 1), sequence=2))
    task.store(logged)
    assert task.expire(logged) == 1
    assert activity.prune() == 1
    assert DecisionSegment.objects.get().sequence == 2
    assert len(list((tmp_path / "decisions").rglob("*.parquet"))) == 1


def test_after_a_restore_what_is_in_no_backup_is_unknown(plane: Plane, logged: Domain) -> None:
    old = now_ms() - 5 * 86_400_000
    plane.receive(report(plane, logged, rows_of(old, 1), begin=old, end=old + 1))
    plane.receive(report(plane, logged, rows_of(now_ms(), 1), sequence=2))
    plane.receive(report(plane, logged, rows_of(now_ms(), 1), sequence=3))
    states = {1: "counted", 2: "counted", 3: "stored"}
    for sequence, state in states.items():
        DecisionSegment.objects.filter(sequence=sequence).update(state=state)
    services.resume_after_loss(by=1)
    assert dict(DecisionSegment.objects.values_list("sequence", "state")) == {
        1: "counted", 2: "broken", 3: "broken",
    }  # fmt: skip
