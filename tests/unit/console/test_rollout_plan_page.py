"""The form that says by which stages changed policies go."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from adminapp.distribution import services
from adminapp.distribution.models import RolloutPlan
from tests.support.control_plane import World

pytestmark = pytest.mark.django_db
PLACE = "/d/flights/rollouts/plan/"
PAGE = "/d/flights/rollouts/"


def sent(*stages: dict[str, Any], **more: Any) -> dict[str, Any]:
    """What a browser sends for these stages."""
    data = {"version": 0, "count": max(len(stages), 1), "silence_seconds": 60, **more}
    for number, stage in enumerate(stages):
        data |= {f"stage-{number}-{name}": value for name, value in stage.items()}
    return data


def refusal(client: Client, data: dict[str, Any]) -> str:
    answer = client.post(PLACE, data)
    assert answer.status_code == 422
    assert not RolloutPlan.objects.exists()
    return answer.content.decode()


CANARY = {"agents": ["alpha"], "wait": 10, "unit": 60}
THEN = {"share": 50, "wait": 2, "unit": 3600}


def test_stages_are_written_in_a_form_and_shown_again(
    world: World, browsers: dict[str, Client]
) -> None:
    manager = browsers["manager"]
    before = manager.get(PAGE).content.decode()
    assert "Go by these stages" in before
    assert 'name="stage-0-agents" value="gamma"' in before
    assert 'value="beta"' not in before  # it serves nobody here
    assert manager.post(PLACE, sent(CANARY, {}, THEN)).status_code == 302
    row = RolloutPlan.objects.get(domain=world.flights)
    assert row.enabled
    assert row.stages == [
        {"agents": ["alpha"], "share": 0, "wait_seconds": 600},
        {"agents": [], "share": 50, "wait_seconds": 7200},
    ]
    after = manager.get(PAGE).content.decode()
    assert "Save the stages" in after
    assert '<option value="3600" selected>hours' in after
    read = browsers["auditor"].get(PAGE).content.decode()
    assert "up to 50 percent of all" in read


def test_another_stage_is_shown_and_nothing_is_saved(
    world: World, browsers: dict[str, Client]
) -> None:
    page = browsers["manager"].post(PLACE, sent(CANARY, more="1"))
    assert page.status_code == 200
    text = page.content.decode()
    assert "Stage 2" in text
    assert 'name="count" value="2"' in text
    assert not RolloutPlan.objects.exists()
    last = browsers["manager"].post(PLACE, sent(*[CANARY] * 8, more="1")).content.decode()
    assert "Stage 8" in last
    assert "Another stage" not in last


def test_what_is_wrong_stands_beside_its_stage(world: World, browsers: dict[str, Client]) -> None:
    manager = browsers["manager"]
    assert "name at least one stage" in refusal(manager, sent()).lower()
    assert "names agents or a share" in refusal(manager, sent(CANARY, {"wait": 5, "unit": 60}))
    assert "not one of the available" in refusal(manager, sent({"agents": ["nobody"]}))
    late = refusal(manager, sent(CANARY, {}, {"share": 5, "wait": 8, "unit": 86_400}))
    place = late.index("from 0 to 604800 seconds".capitalize())
    assert place > late.index('id="stage-3"')
    assert "greater than or equal to 10" in refusal(manager, sent(CANARY, silence_seconds=1))


def test_a_plan_that_changed_meanwhile_stays(world: World, browsers: dict[str, Client]) -> None:
    stages = [{"agents": ["gamma"]}]
    services.set_plan(actor=None, domain=world.flights, stages=stages)
    answer = browsers["manager"].post(PLACE, sent(CANARY))
    assert answer.status_code == 409
    assert "Somebody changed the stages" in answer.content.decode()
    assert RolloutPlan.objects.get().stages[0]["agents"] == ["gamma"]
    browsers["manager"].post(f"{PLACE}end/", {"version": 99})
    assert RolloutPlan.objects.get().enabled


def test_stages_are_switched_off_and_on_again(world: World, browsers: dict[str, Client]) -> None:
    manager = browsers["manager"]
    assert manager.post(f"{PLACE}end/", {"version": 1}).status_code == 404
    manager.post(PLACE, sent(CANARY))
    row = RolloutPlan.objects.get()
    manager.post(f"{PLACE}end/", {})
    assert RolloutPlan.objects.get().enabled
    manager.post(f"{PLACE}end/", {"version": row.version})
    row.refresh_from_db()
    assert not row.enabled
    page = manager.get(PAGE).content.decode()
    assert "Go by these stages" in page
    assert "Switch the stages off" not in page
    assert 'value="alpha" class="form-check-input" id="id_stage-0-agents_0" checked' in page
    manager.post(PLACE, sent(CANARY, version=row.version))
    row.refresh_from_db()
    assert row.enabled
