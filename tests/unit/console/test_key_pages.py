"""The page of keys: dates on which they are renewed, and the end of one generation at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from adminapp.distribution.models import Recipient, RotationSchedule
from adminapp.trustgroups.models import KeyEpoch
from tests.support.control_plane import World

pytestmark = pytest.mark.django_db
PAGE = "/d/flights/keys/"
ROTATIONS = f"{PAGE}rotations/"
TAIL = {"key": "key:tail", "every_days": 30, "jitter_percent": 20, "version": 0}


def epoch(world: World, number: int, state: str) -> KeyEpoch:
    return KeyEpoch.objects.create(
        domain=world.flights, group_ref="key:tail", number=number, state=state, wrapped="x"
    )


# -- dates ---------------------------------------------------------------------------------------


def test_a_key_gets_dates_and_loses_them(world: World, browsers: dict[str, Client]) -> None:
    manager = browsers["manager"]
    before = manager.get(PAGE).content.decode()
    assert "No key has dates" in before
    assert '<option value="key:tail">key tail' in before
    assert '<option value="all">every key of agents' in before
    assert manager.post(ROTATIONS, TAIL).status_code == 302
    row = RotationSchedule.objects.get(domain=world.flights)
    assert (row.key, row.every_days, row.jitter_percent) == ("key:tail", 30, 20)
    assert row.next_at > timezone.now()
    page = manager.get(PAGE).content.decode()
    assert 'value="30"' in page
    assert '<option value="key:tail">' not in page  # it has its row
    manager.post(ROTATIONS, TAIL | {"every_days": 60, "version": row.version})
    row.refresh_from_db()
    assert row.every_days == 60
    assert 'method="post"' not in main(browsers["auditor"])
    assert "<td>60</td>" in main(browsers["auditor"])
    manager.post(f"{ROTATIONS}{row.pk}/remove/", {"version": row.version})
    assert not RotationSchedule.objects.exists()


def main(client: Client) -> str:
    return client.get(PAGE).content.decode().split("<main", 1)[1]


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ({"key": "key:none"}, "not one of the available"),
        ({"every_days": 0}, "greater than or equal to 1"),
        ({"jitter_percent": 51}, "less than or equal to 50"),
        ({"every_days": ""}, "required"),
    ],
)
def test_what_is_wrong_with_dates_stands_beside_it(
    said: dict[str, Any], shown: str, world: World, browsers: dict[str, Client]
) -> None:
    answer = browsers["manager"].post(ROTATIONS, TAIL | said)
    assert answer.status_code == 422
    assert shown in answer.content.decode()
    assert not RotationSchedule.objects.exists()


def test_dates_that_changed_meanwhile_stay(world: World, browsers: dict[str, Client]) -> None:
    manager = browsers["manager"]
    manager.post(ROTATIONS, TAIL)
    row = RotationSchedule.objects.get()
    wrong = manager.post(ROTATIONS, TAIL | {"every_days": 4000, "version": row.version})
    assert (wrong.status_code, 'value="4000"' in wrong.content.decode()) == (422, True)
    late = manager.post(ROTATIONS, TAIL | {"every_days": 90}, follow=True)
    assert "changed by somebody else" in late.content.decode()
    manager.post(f"{ROTATIONS}{row.pk}/remove/", {"version": 99})
    manager.post(f"{ROTATIONS}{row.pk}/remove/", {})
    row.refresh_from_db()
    assert row.every_days == 30
    assert browsers["auditor"].post(f"{ROTATIONS}{row.pk}/remove/").status_code == 403
    assert browsers["stranger"].post(f"{ROTATIONS}{row.pk}/remove/").status_code == 404


# -- an end at once ------------------------------------------------------------------------------


def test_an_epoch_ends_at_once_after_its_losses_were_shown(
    world: World, browsers: dict[str, Client]
) -> None:
    row = epoch(world, 3, "draining")
    Recipient.objects.create(
        domain=world.flights, audience="agent:alpha", keys={"key:tail": {"3": "draining"}}
    )
    manager, place = browsers["manager"], f"{PAGE}epochs/{row.pk}/end/"
    assert f'href="{place}"' in manager.get(PAGE).content.decode()
    assert place not in browsers["auditor"].get(PAGE).content.decode()
    shown = manager.get(place).content.decode()
    assert "Nothing is changed yet" in shown
    assert "Flight.tail" in shown
    assert 'href="/agents/alpha/"' in shown
    data = {"version": row.version, "reason": "it was copied", "confirm": "tail 3"}
    for wrong in ({"confirm": "tail"}, {"reason": ""}):
        assert manager.post(place, data | wrong).status_code == 422
    row.refresh_from_db()
    assert row.state == "draining"
    assert manager.post(place, data).status_code == 302
    row.refresh_from_db()
    assert row.state == "retired"
    again = manager.post(place, data | {"version": row.version})
    assert (again.status_code, "ended already" in again.content.decode()) == (409, True)


def test_only_managers_end_epochs(world: World, browsers: dict[str, Client]) -> None:
    row = epoch(world, 3, "staged")
    place = f"{PAGE}epochs/{row.pk}/end/"
    for standing, status in (("auditor", 403), ("stranger", 404), ("anonymous", 302)):
        for answer in (browsers[standing].get(place), browsers[standing].post(place)):
            assert answer.status_code == status
    assert browsers["manager"].get(f"{PAGE}epochs/{row.pk + 1}/end/").status_code == 404
    row.refresh_from_db()
    assert row.state == "staged"


def test_without_the_authority_the_epoch_in_force_stays(
    world: World, browsers: dict[str, Client], settings: Any, tmp_path: Path
) -> None:
    settings.AUTHORITY_SOCKET = tmp_path / "nobody.sock"
    row = epoch(world, 1, "current")
    data = {"version": row.version, "reason": "it was copied", "confirm": "tail 1"}
    answer = browsers["manager"].post(f"{PAGE}epochs/{row.pk}/end/", data)
    assert answer.status_code == 503
    assert "does not answer" in answer.content.decode()
    row.refresh_from_db()
    assert row.state == "current"
