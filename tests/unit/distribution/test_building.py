"""Bundles that are kept and queued a set at a time: as one by one, and nothing in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from django.db import IntegrityError

from adminapp.distribution import building, roots, services
from adminapp.distribution.building import Made
from adminapp.distribution.contents import Snapshot
from adminapp.distribution.models import Bundle, Compilation, ContentOutline, Recipient
from adminapp.identity.models import Domain
from adminapp.outbox.models import OutboxRow
from tests.support.audiences import Plane

Store = Callable[[Snapshot, Sequence[Made]], None]


def kept() -> list[str]:
    """Whose bundles are there, in the order in which they were written."""
    return list(Bundle.objects.order_by("pk").values_list("audience", flat=True))


def pushed() -> list[int]:
    rows = OutboxRow.objects.filter(topic="push").order_by("pk")
    return [row.payload["bundle"] for row in rows]


def all_hold(plane: Plane, domain: Domain) -> bool:
    domain.refresh_from_db()
    plane.settle()
    agents = [plane.audiences[f"agent:{name}"] for name in ("alpha", "beta")]
    held = [agent.bundles[domain.name].header.revision for agent in agents]
    return held == [domain.revision] * 2 and all(agent.refusals == [] for agent in agents)


@pytest.mark.parametrize(("together", "most"), [(1, 2**30), (3, 2**30), (50, 1), (50, 2**30)])
def test_however_many_at_once_everybody_gets_what_is_due(
    plane: Plane, heating: Domain, monkeypatch: pytest.MonkeyPatch, together: int, most: int
) -> None:
    stored: list[int] = []
    store: Store = building._store

    def counted(snapshot: Snapshot, made: Sequence[Made]) -> None:
        stored.append(len(made))
        store(snapshot, made)

    monkeypatch.setattr(building, "_store", counted)
    monkeypatch.setattr(building, "TOGETHER", together)
    monkeypatch.setattr(building, "MOST_BYTES", most)
    services.compile_domain(heating.pk)
    audiences = kept()
    assert max(stored) <= (1 if most == 1 else together)
    assert len(set(audiences)) == len(audiences) == sum(stored) > 6
    assert audiences[:2] == ["agent:alpha", "agent:beta"], "who enforces comes first"
    assert pushed() == list(Bundle.objects.order_by("pk").values_list("pk", flat=True))
    assert set(ContentOutline.objects.values_list("audience", flat=True)) == set(audiences)
    assert set(Recipient.objects.values_list("audience", flat=True)) >= set(audiences)
    assert all_hold(plane, heating)


def test_who_may_make_tags_of_which_epoch_is_known(plane: Plane, heating: Domain) -> None:
    services.compile_domain(heating.pk)
    tagging = Recipient.objects.filter(tag_epoch=1).values_list("audience", flat=True)
    assert tagging
    for address in tagging:
        assert address.startswith("client:")
    plane.settle()
    held = {address: plane.audiences[address].content("heating") for address in tagging}
    assert all(content.tag_keys for content in held.values())


def test_a_compiler_that_was_quicker_with_one_of_them_takes_nothing_from_the_others(
    plane: Plane, heating: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    store: Store = building._store
    stored: list[list[str]] = []

    def overtaken(snapshot: Snapshot, made: Sequence[Made]) -> None:
        if not stored:
            stored.append([])
            store(snapshot, [one for one in made if one.address == "agent:beta"])
        store(snapshot, made)
        stored.append([one.address for one in made])

    monkeypatch.setattr(building, "_store", overtaken)
    services.compile_domain(heating.pk)
    assert "agent:beta" not in stored[1]
    assert "agent:alpha" in stored[1]
    audiences = kept()
    assert len(set(audiences)) == len(audiences) > 6
    assert len(set(pushed())) == len(pushed()) == len(audiences)
    assert all_hold(plane, heating)


def test_what_cannot_be_written_for_another_reason_is_an_error(
    plane: Plane, heating: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(snapshot: Snapshot, made: Sequence[Made]) -> None:
        raise IntegrityError("no such domain")

    monkeypatch.setattr(building, "_store", broken)
    with pytest.raises(IntegrityError, match="no such domain"):
        services.compile_domain(heating.pk)
    assert (kept(), pushed()) == ([], [])


def test_a_set_is_there_whole_or_not_at_all(
    plane: Plane, heating: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patched:
        patched.setattr(building.delivery, "request_pushes", full)
        with pytest.raises(OSError, match="disk full"):
            services.compile_domain(heating.pk)
    assert (kept(), pushed()) == ([], [])
    assert not ContentOutline.objects.exists()
    assert not Compilation.objects.filter(revision__gt=0).exists()
    services.compile_domain(heating.pk)
    assert all_hold(plane, heating)


def test_a_root_that_comes_into_force_meanwhile_signs_all_of_the_set(
    plane: Plane, heating: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = iter([1, 2, 2, 2])
    last = 2
    monkeypatch.setattr(roots, "version", lambda: next(versions, last))
    services.compile_domain(heating.pk)
    assert set(Bundle.objects.values_list("root_version", flat=True)) == {2}
    audiences = kept()
    assert len(set(audiences)) == len(audiences) > 6


def test_a_set_without_news_writes_nothing(plane: Plane, heating: Domain) -> None:
    services.compile_domain(heating.pk)
    plane.settle()
    before: Any = list(Bundle.objects.values_list("pk", flat=True))
    Compilation.objects.update(revision=0)
    services.compile_domain(heating.pk)
    assert list(Bundle.objects.values_list("pk", flat=True)) == before
