"""Revisions go on above what the authority signed, and the control plane finds there by itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import transaction

from adminapp.audit.models import Entry
from adminapp.core.authority import get_authority
from adminapp.distribution import numbering, services
from adminapp.distribution.models import Bundle
from adminapp.identity import services as identity
from adminapp.identity.models import Domain
from adminapp.policies import remembered
from adminapp.policies import services as policies
from tests.support.audiences import Plane
from tests.support.kept_planes import PlaneKeeper
from tests.unit.distribution.conftest import at_rest

AGENTS = ("agent:alpha", "agent:beta")


@pytest.fixture
def running(plane: Plane, planes: PlaneKeeper) -> Domain:
    """JingFang, everybody up to date."""
    found = at_rest(plane, planes, "heating")
    plane.lease_all()
    return found


@contextmanager
def lost() -> Iterator[None]:
    """Everything that happens inside is gone from the database afterwards, and from nowhere else:
    the authority signed it, and agents hold it.
    """
    point = transaction.savepoint()
    yield
    transaction.savepoint_rollback(point)
    remembered.forget()


def now() -> Domain:
    return Domain.objects.get(name="heating")


def rename(title: str) -> None:
    identity.update_domain(actor=None, domain=now(), data={"title": title})


def permit(event_type: str) -> None:
    policies.create_policy(
        actor=None, domain=now(), name="new", action="subscribe", event_type=event_type,
        expression='subject.type == "individual"',
    )  # fmt: skip


def raised() -> list[Any]:
    found = Entry.objects.filter(action="domain.revision-raised").order_by("sequence")
    return [(row.before["revision"], row.after["signed"]) for row in found]


def held(plane: Plane) -> set[int]:
    return {plane.audiences[name].state.revisions["heating"].revision for name in AGENTS}


def went_back(plane: Plane) -> set[str]:
    """Refusals that no agent should have had reason for; a delta may follow what is not there."""
    return {reason for name in AGENTS for reason in plane.audiences[name].refusals} - {"previous"}


def test_restored_from_yesterday_it_goes_on_above_what_was_signed(
    plane: Plane, running: Domain
) -> None:
    yesterday = running.revision
    with lost():
        for title in ("one", "two", "three"):
            rename(title)
            plane.settle()
        top = now().revision
        assert top == yesterday + 3
    assert now().revision == yesterday
    assert get_authority().signed_revision("heating") == top
    rename("after the restore")
    plane.settle()
    assert now().revision == top + 1
    assert raised() == [(yesterday + 1, top)]
    # Agents, who hold what the database forgot, were sent nothing that goes back.
    assert held(plane) == {top + 1}
    assert not went_back(plane)
    newest = Bundle.objects.filter(audience__in=AGENTS, revision=top + 1)
    assert {row.state for row in newest} == {"applied"}
    assert newest.count() == len(AGENTS)
    # It is settled: the next change takes the next number.
    rename("and on")
    plane.settle()
    assert (now().revision, held(plane)) == (top + 2, {top + 2})
    assert len(raised()) == 1


def test_another_content_under_a_number_that_was_signed_gets_a_new_one(
    plane: Plane, running: Domain
) -> None:
    with lost():
        permit("Statistics")
        plane.settle()
        top = now().revision
    permit("WaterTemperature")
    assert now().revision == top
    plane.settle()
    assert raised() == [(top, top)]
    assert now().revision == top + 1
    assert held(plane) == {top + 1}
    assert not went_back(plane)


def test_a_bundle_that_is_made_again_finds_there_too(plane: Plane, running: Domain) -> None:
    """An agent that lost its disk asks for the whole before anybody changes anything."""
    with lost():
        rename("gone")
        plane.settle()
        top = now().revision
    services.rebuild([Bundle.objects.filter(audience="agent:alpha").latest("revision").pk])
    assert raised() == [(top - 1, top)]
    plane.settle()
    assert now().revision == top + 1
    assert held(plane) == {top + 1}


def test_a_compile_that_was_overtaken_by_the_next_needs_nothing(
    plane: Plane, running: Domain
) -> None:
    rename("newer")
    before = now().revision
    numbering.overtake(running.pk, before - 1)
    assert (now().revision, raised()) == (before, [])


def test_two_who_find_out_at_once_raise_it_once(plane: Plane, running: Domain) -> None:
    top = running.revision
    for _ in range(2):
        numbering.overtake(running.pk, top)
    assert now().revision == top + 1
    assert raised() == [(top, top)]
    plane.settle()
    assert held(plane) == {top + 1}
