"""The page that gives an attribute another alias: what it would touch, then, confirmed, the run."""

from __future__ import annotations

import pytest
from django.test import Client

from adminapp.audit.models import Entry
from adminapp.distribution.models import EncodingEpoch, RecomputeJob
from policyengine.anonset.parameters import size_for
from tests.support.control_plane import World, key

pytestmark = pytest.mark.django_db
KEYS = "/d/flights/keys/"
PAGE = f"{KEYS}alias/?attribute=carrier"


@pytest.fixture
def encoded(world: World) -> World:
    """The flights with an encoding epoch, and a client of alpha that is there."""
    parameters = size_for(16, encoding="tokens", blind_probability=0.0).to_json()
    EncodingEpoch.objects.create(
        domain=world.flights, number=1, state="current", client_state="current", cause="initial",
        parameters=dict(parameters),
    )  # fmt: skip
    world.united.sealing_key, world.united.verify_key = key(5), key(6)
    world.united.save()
    return world


def test_it_is_offered_beside_the_keys_to_whoever_may(
    world: World, browsers: dict[str, Client]
) -> None:
    page = browsers["manager"].get(KEYS).content.decode()
    assert "Aliases of attributes" in page
    assert f'href="{PAGE}"' in page
    shown = browsers["auditor"].get(KEYS).content.decode()
    assert "Aliases of attributes" in shown
    assert PAGE not in shown
    for method in ("get", "post"):
        assert getattr(browsers["auditor"], method)(PAGE).status_code == 403
        assert getattr(browsers["stranger"], method)(PAGE).status_code == 404
    assert browsers["manager"].get(f"{KEYS}alias/").status_code == 404


def test_what_it_touches_is_shown_and_done_once_its_name_is_typed(
    encoded: World, browsers: dict[str, Client]
) -> None:
    manager = browsers["manager"]
    page = " ".join(manager.get(PAGE).content.decode().split())
    assert "Nothing is changed yet" in page
    assert "nobody loses or gains a right" in page
    assert "Tested by own flights" in page
    for wrong in ({"confirm": "tail", "reason": "seen"}, {"confirm": "carrier", "reason": ""}):
        assert manager.post(PAGE, wrong).status_code == 422
    assert not RecomputeJob.objects.exists()
    answer = manager.post(PAGE, {"confirm": "carrier", "reason": "it was seen"})
    job = RecomputeJob.objects.get()
    assert answer.headers["Location"] == f"/d/flights/jobs/{job.uid}/"
    assert (job.cause, job.targets) == ("alias", {"attributes": ["subject.carrier"]})
    entry = Entry.objects.get(action="alias.burnt")
    assert entry.actor_name == "mona"
    assert "gets another alias" in manager.get(answer.headers["Location"]).content.decode()


def test_where_nothing_is_encoded_there_is_nothing_to_do(
    world: World, browsers: dict[str, Client]
) -> None:
    answer = browsers["manager"].get(PAGE, follow=True)
    assert answer.redirect_chain == [(KEYS, 302)]
    assert "nothing of this domain is encoded yet" in answer.content.decode().lower()


def test_programs_are_told_the_same(encoded: World, browsers: dict[str, Client]) -> None:
    place = f"/api/v1/domains/{encoded.flights.pk}"
    manager = browsers["manager"]
    (listed,) = [
        one for one in manager.get(f"{place}/aliases").json() if one["attribute"] == "carrier"
    ]
    assert listed == {"attribute": "carrier", "policies": ["own flights"], "burnt": 0}
    found = manager.get(f"{place}/alias-impact?attribute=carrier").json()
    assert found["encodings"] == sum(one["clients"] + one["rules"] for one in found["agents"]) > 0
    assert manager.get(f"{place}/alias-impact").status_code == 400
    body = {"attribute": "subject.carrier", "reason": "it was seen"}
    made = manager.post(f"{place}/burn-alias", body, content_type="application/json")
    assert made.status_code == 202
    assert manager.get(made.headers["Location"]).json()["state"] == "pending"
    body["attribute"] = "nothing"
    refused = manager.post(f"{place}/burn-alias", body, content_type="application/json")
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (400, "/attribute")
