"""Work in the outbox is handed out once and done once."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from adminapp.outbox import selectors, services
from adminapp.outbox.models import OutboxRow

State = OutboxRow.State
pytestmark = pytest.mark.django_db


def put(number: int, topic: str = "compile") -> OutboxRow:
    return services.put(topic=topic, key=f"{topic}:{number}", payload={"number": number})


def state(row: OutboxRow) -> str:
    return OutboxRow.objects.get(pk=row.pk).state


def test_a_key_exists_once() -> None:
    first = put(1)
    again = services.put(topic="compile", key="compile:1", payload={"number": 2})
    assert again.pk == first.pk
    assert OutboxRow.objects.get().payload == {"number": 1}


def test_claiming_takes_the_oldest_and_takes_it_once() -> None:
    rows = [put(number) for number in range(4)]
    first, second = services.claim(limit=3), services.claim(limit=3)
    assert [row.pk for row in first] == [row.pk for row in rows[:3]]
    assert [row.pk for row in second] == [rows[3].pk]
    assert services.claim() == []
    assert all(row.state == State.CLAIMED and row.attempts == 1 for row in first)


def test_the_condition_decides_between_two_relays() -> None:
    """Both read the row while it was waiting; one update finds it so."""
    put(1)
    seen_by_both = OutboxRow.objects.get()
    now = timezone.now()
    assert services._take(seen_by_both, now)
    stale = OutboxRow(pk=seen_by_both.pk)
    assert not services._take(stale, now)


def test_topics_and_time() -> None:
    put(1, "other")
    later = put(2)
    OutboxRow.objects.filter(pk=later.pk).update(available_at=timezone.now() + timedelta(hours=1))
    assert services.claim(topics=["compile"]) == []
    assert [row.key for row in services.claim()] == ["other:1"]


def test_a_row_is_done_once() -> None:
    put(1)
    (row,) = services.claim()
    assert services.done(rows=[row]) == 1
    assert services.done(rows=[row]) == 0
    assert state(row) == State.DONE


def test_retries_wait_longer_and_longer_and_end() -> None:
    put(1)
    waits = []
    for _ in range(services.MAX_ATTEMPTS):
        OutboxRow.objects.update(available_at=timezone.now())
        (row,) = services.claim()
        assert services.retry(row=row, error="broker away")
        fresh = OutboxRow.objects.get()
        waits.append((fresh.available_at - timezone.now()).total_seconds())
        assert fresh.error == "broker away"
    assert waits[0] < waits[3] < waits[6]
    assert max(waits) <= services.MAX_DELAY.total_seconds()
    assert state(row) == State.FAILED
    assert services.claim() == []
    assert services.release(row=row)
    assert state(row) == State.PENDING
    assert not services.release(row=row)


def test_a_retry_of_what_is_done_changes_nothing() -> None:
    put(1)
    (row,) = services.claim()
    services.done(rows=[row])
    assert not services.retry(row=row, error="late")
    assert state(row) == State.DONE


def test_sweeping_gives_back_what_a_dead_worker_held() -> None:
    put(1)
    put(2)
    dead, alive = services.claim()
    OutboxRow.objects.filter(pk=dead.pk).update(claimed_at=timezone.now() - timedelta(minutes=5))
    assert services.sweep(older_than=timedelta(minutes=1)) == 1
    assert (state(dead), state(alive)) == (State.PENDING, State.CLAIMED)
    assert [row.attempts for row in services.claim()] == [2]


def test_claiming_by_key() -> None:
    put(1)
    row = services.claim_key(key="compile:1")
    assert row is not None
    assert row.state == State.CLAIMED
    assert services.claim_key(key="compile:1") is None
    assert services.claim_key(key="compile:9") is None


def test_pruning_keeps_what_is_not_done() -> None:
    put(1)
    put(2)
    (row, _other) = services.claim()
    services.done(rows=[row])
    OutboxRow.objects.filter(pk=row.pk).update(done_at=timezone.now() - timedelta(days=8))
    assert services.prune() == 1
    assert [left.key for left in OutboxRow.objects.all()] == ["compile:2"]


def test_the_summary_counts() -> None:
    put(1)
    put(2)
    services.claim(limit=1)
    summary = selectors.summary()
    assert summary["counts"] == {"pending": 1, "claimed": 1, "done": 0, "failed": 0}
    assert summary["oldest_pending"] is not None
