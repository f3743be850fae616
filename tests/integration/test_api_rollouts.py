"""Rollouts, their plans, the history and the coverage of keys, as the API tells of them."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from django.test import Client
from django.utils import timezone

from adminapp.distribution.models import Enforcement, PolicyRollout, Recipient, RolloutPlan
from adminapp.trustgroups.models import KeyEpoch
from tests.support.control_plane import World

API = "/api/v1"
STAGES = [{"agents": ["alpha"], "share": 0, "wait_seconds": 60}]


def send(client: Client, method: str, path: str, body: Any = None) -> Any:
    return client.generic(
        method,
        f"{API}{path}",
        data="" if body is None else json.dumps(body),
        content_type="application/json",
        headers={"If-Match": "*"},
    )


def test_a_plan_is_set_changed_and_said_to_be_wrong(
    world: World, browsers: dict[str, Client]
) -> None:
    manager = browsers["manager"]
    made = send(manager, "POST", "/rollout-plans", {"domain": "flights", "stages": STAGES})
    assert (made.status_code, made.json()["stages"]) == (201, STAGES)
    assert made.json()["enabled"] is True
    path = f"/rollout-plans/{made.json()['id']}"
    changed = send(manager, "PATCH", path, {"silence_seconds": 90})
    assert (changed.json()["silence_seconds"], changed.json()["stages"]) == (90, STAGES)
    wrong = send(manager, "PATCH", path, {"stages": [{"agents": ["nobody"]}]})
    assert wrong.status_code == 400
    assert wrong.json()["errors"][0]["pointer"] == "/stages/0/agents"
    assert send(browsers["auditor"], "PATCH", path, {"enabled": False}).status_code == 403
    assert RolloutPlan.objects.get().enabled


def test_agents_of_a_rollout_stand_as_they_signed(
    world: World, browsers: dict[str, Client]
) -> None:
    stages = [
        {"agents": ["alpha", "beta"], "wait_seconds": 5},
        {"agents": ["gamma"], "wait_seconds": 0},
    ]
    row = PolicyRollout.objects.create(
        domain=world.flights, revision=9, stage_revision=9, content={}, stages=stages
    )
    later = timezone.now() + timedelta(minutes=5)
    for name, revision, leased in (("alpha", 9, later), ("beta", 8, timezone.now())):
        Recipient.objects.create(
            audience=f"agent:{name}",
            domain=world.flights,
            revision=revision,
            state="applied",
            leased_until=leased,
        )
    answer = browsers["auditor"].get(f"{API}/rollouts/{row.pk}/agents")
    told = [(each["agent"], each["stage"], each["state"]) for each in answer.json()]
    assert told == [("alpha", 0, "applied"), ("beta", 0, "silent"), ("gamma", 1, "held")]
    listed = browsers["auditor"].get(f"{API}/rollouts?domain=flights&state=running").json()
    assert [each["revision"] for each in listed["results"]] == [9]
    assert send(browsers["manager"], "POST", f"/rollouts/{row.pk}/continue").status_code == 412
    page = browsers["manager"].get("/d/flights/rollouts/").content.decode()
    assert "1 of 3 agents hold it" in page


def test_the_history_is_searched_by_who_what_and_when(
    world: World, browsers: dict[str, Client]
) -> None:
    now = timezone.now()
    for hours, name, proven in ((3, "alpha", True), (2, "beta", False), (1, "alpha", True)):
        Enforcement.objects.create(
            audience=f"agent:{name}",
            domain=world.flights,
            revision=9 - hours,
            digest="0" * 64,
            applied_at=now - timedelta(hours=hours),
            proven=proven,
        )
    auditor = browsers["auditor"]

    def found(query: str) -> list[int]:
        answer = auditor.get(f"{API}/enforcements?domain=flights&{query}")
        assert answer.status_code == 200
        return sorted(each["revision"] for each in answer.json()["results"])

    assert found("audience=agent:alpha") == [6, 8]
    assert found("proven=false") == [7]
    assert found("revision=8") == [8]
    since = (now - timedelta(minutes=150)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert found(f"since={since}") == [7, 8]
    assert found(f"until={since}") == [6]
    answer = browsers["stranger"].get(f"{API}/enforcements?domain=flights")
    assert answer.json()["results"] == []


def test_coverage_and_losses_are_told_from_what_was_signed(
    world: World, browsers: dict[str, Client]
) -> None:
    epoch = KeyEpoch.objects.create(
        domain=world.flights, group_ref="key:tail", number=1, wrapped="w"
    )
    Recipient.objects.create(
        audience="agent:alpha",
        domain=world.flights,
        revision=3,
        keys={"key:tail": {"1": "current"}},
        leased_until=timezone.now() + timedelta(minutes=5),
    )
    auditor = browsers["auditor"]
    (key,) = auditor.get(f"{API}/domains/{world.flights.pk}/key-coverage").json()
    assert (key["key"], key["epochs"]) == ("key:tail", [1])
    assert key["agents"] == [
        {
            "agent": "alpha",
            "entitled": True,
            "silent": False,
            "believed": True,
            "cells": [{"epoch": 1, "state": "current", "held": "current"}],
        }
    ]
    told = auditor.get(f"{API}/key-epochs/{epoch.pk}/losses").json()
    assert told == {
        "key": "key:tail",
        "epoch": 1,
        "attributes": ["Flight.tail"],
        "holders": ["alpha"],
        "successor": [],
        "without": ["alpha"],
        "replaced": True,
    }
    page = browsers["manager"].get("/d/flights/keys/").content.decode()
    assert 'data-held="current"' in page
