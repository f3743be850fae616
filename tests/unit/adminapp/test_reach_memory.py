"""What is kept of effective access between questions, and when it is let go."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from adminapp.catalog.models import EventType
from adminapp.identity.models import Domain, Principal
from adminapp.policies import reach, remembered
from adminapp.policies import services as policies
from adminapp.policies.models import Policy
from adminapp.policies.reach import Reach

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def domain() -> Iterator[Domain]:
    remembered.forget()
    above = Domain.objects.create(name="above", title="Above")
    found = Domain.objects.create(name="below", title="Below", parent=above)
    kind = EventType.objects.create(domain=above, name="Flight")
    Principal.objects.create(domain=found, name="Ann", kind="subscriber")
    Policy.objects.create(
        domain=above, name="all", action="subscribe", event_type=kind, expression="true"
    )
    yield found
    remembered.forget()


def queries(domain: Domain) -> int:
    with CaptureQueriesContext(connection) as captured:
        reach.take(domain)
    return len(captured)


def who(domain: Domain) -> tuple[str, ...]:
    return reach.take(domain).who("subscribe", "Flight")


def test_it_is_kept_while_nothing_changes(domain: Domain) -> None:
    first = reach.take(domain)
    assert reach.take(domain) is first
    assert queries(domain) == 1
    assert reach.take(domain, only=[domain.principals.get().pk]) is first


def test_a_change_here_or_above_lets_it_go(domain: Domain) -> None:
    assert who(domain) == ("Ann",)
    policies.update_policy(actor=None, policy=Policy.objects.get(), data={"enabled": False})
    assert who(domain) == ()
    policies.update_policy(actor=None, policy=Policy.objects.get(), data={"enabled": True})
    assert who(domain) == ("Ann",)
    Domain.objects.filter(pk=domain.pk).update(parent=None)
    assert who(domain) == ()


def test_it_holds_until_something_ends_by_itself(domain: Domain) -> None:
    now = timezone.now()
    Policy.objects.update(valid_until=now + timedelta(hours=1))
    early = reach.take(domain, at=now)
    assert early.until == now + timedelta(hours=1)
    assert reach.take(domain, at=now + timedelta(minutes=59)) is early
    late = reach.take(domain, at=now + timedelta(hours=1))
    assert (late.who(), early.who()) == ((), ("Ann",))
    assert reach.take(domain, at=now - timedelta(hours=1)) is not early


def test_inside_a_transaction_nothing_is_kept_or_taken(domain: Domain) -> None:
    known = reach.take(domain)
    with transaction.atomic():
        Policy.objects.all().delete()
        assert who(domain) == ()
        transaction.set_rollback(True)
    assert reach.take(domain) is known


def test_a_state_that_was_torn_is_not_kept(domain: Domain, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(fresh: Domain) -> Reach:
        found = reach._read(fresh, timezone.now(), None)
        Domain.objects.filter(pk=domain.pk).update(revision=domain.revision + len(made) + 1)
        made.append(found)
        return found

    made: list[Reach] = []
    assert remembered.keep(domain, timezone.now(), read) is made[-1]
    assert len(made) == 3
    assert remembered.find(domain, timezone.now()) is None


def test_the_language_is_kept_and_the_environment_is_not(domain: Domain) -> None:
    noon = timezone.now().replace(hour=12)
    one = remembered.language(domain, noon)
    two = remembered.language(domain, noon.replace(hour=13))
    assert two.types is one.types
    assert (one.values["env.hour"], two.values["env.hour"]) == (12, 13)
    EventType.objects.create(domain=domain, name="Train")
    Domain.objects.filter(pk=domain.pk).update(revision=50)
    assert "Train" in remembered.language(domain, noon).types.names
    with transaction.atomic():
        EventType.objects.create(domain=domain, name="Bus")
        assert "Bus" in remembered.language(domain, noon).types.names
        transaction.set_rollback(True)
    assert "Bus" not in remembered.language(domain, noon).types.names


def test_memory_is_bounded(domain: Domain, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Domain.objects.get(name="above")
    Principal.objects.create(domain=other, name="Bob", kind="subscriber")
    first, second = reach.take(domain), reach.take(other)
    assert (reach.take(domain) is first, reach.take(other) is second) == (True, True)
    monkeypatch.setattr(remembered, "LIMIT", max(first.nbytes, second.nbytes))
    Domain.objects.filter(pk=domain.pk).update(revision=99)
    newest = reach.take(domain)
    assert reach.take(domain) is newest
    assert reach.take(other) is not second  # it was used least lately
    monkeypatch.setattr(remembered, "LIMIT", 1)
    Domain.objects.filter(pk=domain.pk).update(revision=100)
    assert reach.take(domain) is not reach.take(domain)
