"""Agreements over REST, as everybody: either side's managers, an auditor, others, nobody."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from adminapp.agreements import services
from adminapp.agreements.models import Agreement
from adminapp.identity import services as identity
from adminapp.roles import services as roles
from tests.support.control_plane import World

URL = "/api/v1/agreements"
TERMS: dict[str, Any] = {
    "roles": [{"role": "engineer", "as": "airline"}],
    "opens": [{"type": "Flight", "action": "subscribe", "attributes": ["origin"]}],
    "ends": "2099-01-01T00:00:00Z",
}
BODY = {"provider": "flights", "consumer": "heating", "name": "gates", "terms": TERMS}
# The stranger of the world manages the other side.
MANAGERS = {"operator": 200, "manager": 200, "stranger": 200}
WATCHERS = {"auditor": 403, "outsider": 404, "anonymous": 401}


@pytest.fixture
def callers(world: World, browsers: dict[str, Client]) -> dict[str, Client]:
    """`browsers`, and the manager of a third domain."""
    third = identity.create_domain(actor=world.operator, name="third", title="Third")
    user = identity.create_user(actor=world.operator, username="otto")
    identity.set_membership(actor=world.operator, user=user, domain=third, role="manager")
    browsers["outsider"] = Client()
    browsers["outsider"].force_login(user, backend="adminapp.identity.backends.ThrottledBackend")
    roles.create_role(actor=world.stranger, domain=world.heating, name="engineer")
    return browsers


@pytest.fixture
def agreement(world: World, callers: dict[str, Client]) -> Agreement:
    return services.propose_agreement(
        actor=world.manager,
        provider=world.flights,
        consumer=world.heating,
        name="gates",
        terms=TERMS,
    )


def post(client: Client, path: str, body: dict[str, Any] | None = None) -> Any:
    return client.post(path, body or {}, "application/json")


def test_reading(agreement: Agreement, callers: dict[str, Client]) -> None:
    url = f"{URL}/{agreement.pk}"
    codes = {name: callers[name].get(url).status_code for name in callers}
    expected = dict.fromkeys(("operator", "manager", "auditor", "stranger"), 200)
    assert codes == {**expected, "outsider": 404, "anonymous": 401}
    for name, code in codes.items():
        if code == 200:
            listed = callers[name].get(URL, {"domain": "heating"}).json()["results"]
            assert [each["id"] for each in listed] == [agreement.pk]
    assert callers["outsider"].get(URL).json()["results"] == []


def test_people_of_the_other_side_are_not_shown(
    agreement: Agreement, callers: dict[str, Client]
) -> None:
    by = {
        name: callers[name].get(f"{URL}/{agreement.pk}").json()["rounds"][0]["by"]
        for name in ("operator", "auditor", "stranger")
    }
    assert by == {"operator": "mona", "auditor": "mona", "stranger": None}


def test_proposing(callers: dict[str, Client]) -> None:
    expected = {"anonymous": 401, "auditor": 403, "outsider": 403, "stranger": 201, "manager": 400}
    codes = {name: post(callers[name], URL, BODY).status_code for name in expected}
    assert codes == expected  # the manager comes too late: the name is taken
    assert Agreement.objects.get().rounds.get().side == "consumer"
    unclear = post(callers["operator"], URL, {**BODY, "name": "other"})
    assert unclear.json()["errors"][0]["pointer"] == "/side"
    made = post(callers["operator"], URL, {**BODY, "name": "other", "side": "provider"})
    assert made.status_code == 201
    assert callers["operator"].get(made["Location"]).json() == made.json()


def test_mistakes_are_pointed_at(callers: dict[str, Client]) -> None:
    wrong = {**BODY, "terms": {**TERMS, "roles": [{"role": "engineer", "as": "airlin"}]}}
    answer = post(callers["manager"], URL, wrong)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == "/terms/roles/0/as"
    assert answer.json()["errors"][0]["suggestion"] == "airline"
    unknown = post(callers["manager"], URL, {**BODY, "consumer": "nowhere"})
    assert unknown.json()["errors"][0]["pointer"] == "/consumer"


@pytest.mark.parametrize("deed", ["accept", "reject", "withdraw", "counter"])
def test_who_may_act(deed: str, agreement: Agreement, callers: dict[str, Client]) -> None:
    round_ = agreement.rounds.get()
    body = {
        "accept": {"round": 1, "digest": round_.digest},
        "reject": {"reason": "no"},
        "withdraw": {"reason": "no"},
        "counter": {"round": 1, "terms": TERMS},
    }[deed]
    url = f"{URL}/{agreement.pk}/{deed}"
    for name, code in WATCHERS.items():
        assert post(callers[name], url, body).status_code == code, name
    answer = post(callers["stranger"], url, body)
    assert answer.status_code == 200, answer.content
    shown = answer.json()
    assert shown["version"] == 2
    if deed == "accept":
        assert shown["rounds"][0]["accepted"][0]["side"] == "consumer"
        assert shown["rounds"][0]["accepted"][0]["by"] == "sten"
        done = post(callers["manager"], url, body).json()
        assert (done["state"], done["accepted_round"]) == ("accepted", 1)
        assert done["rounds"][0]["accepted"][0]["by"] is None
    else:
        words = {"reject": "rejected", "withdraw": "withdrawn", "counter": "countered"}
        assert shown["state"] == words[deed]


def test_a_stale_round_is_refused(agreement: Agreement, callers: dict[str, Client]) -> None:
    digest = agreement.rounds.get().digest
    post(callers["stranger"], f"{URL}/{agreement.pk}/counter", {"round": 1, "terms": TERMS})
    body = {"round": 1, "digest": digest}
    answer = post(callers["manager"], f"{URL}/{agreement.pk}/accept", body)
    assert answer.status_code == 412


def test_an_idempotency_key_acts_once(agreement: Agreement, callers: dict[str, Client]) -> None:
    body = {"round": 1, "digest": agreement.rounds.get().digest}
    answers = [
        callers["manager"].post(
            f"{URL}/{agreement.pk}/accept",
            body,
            "application/json",
            headers={"Idempotency-Key": "k"},
        )
        for _ in range(2)
    ]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[1]["Idempotency-Replayed"] == "true"


def test_the_directory_is_for_managers(callers: dict[str, Client]) -> None:
    codes = {name: callers[name].get("/api/v1/directory").status_code for name in callers}
    expected = dict.fromkeys(("operator", "manager", "stranger", "outsider"), 200)
    assert codes == {**expected, "auditor": 403, "anonymous": 401}
    listed = callers["outsider"].get("/api/v1/directory", {"search": "heat"}).json()["results"]
    assert listed == [{"name": "heating", "title": "Heating"}]


def test_a_list_of_thirty_costs_as_much_as_one(world: World, callers: dict[str, Client]) -> None:
    def propose(count: int) -> None:
        for _ in range(count):
            services.propose_agreement(
                actor=None,
                provider=world.flights,
                consumer=world.heating,
                name=f"a{Agreement.objects.count()}",
                terms=TERMS,
            )

    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            assert callers["manager"].get(URL).status_code == 200
        return len(captured)

    propose(1)
    few = queries()
    propose(29)
    assert queries() == few
