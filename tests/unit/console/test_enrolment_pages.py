"""The pages on which people let machines in."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from adminapp.enrolment.models import Enrolment
from adminapp.identity.models import Agent, Principal
from tests.support.api_rows import BACKEND, unthrottle
from tests.support.control_plane import World
from tests.support.enrolling import Machine, certifying

__all__ = ["certifying"]
pytestmark = pytest.mark.usefixtures("certifying")


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    unthrottle(monkeypatch)


def browser(user: object) -> Client:
    made = Client()
    made.force_login(user, backend=BACKEND)  # type: ignore[arg-type]
    return made


def secret_in(page: str) -> str:
    found = re.search(r"pce_[A-Za-z0-9_-]+", page)
    assert found
    return found[0]


def asked(machine: Machine) -> Enrolment:
    assert machine.request()[0] == 201
    assert machine.question()[1]["state"] == "pending"
    return Enrolment.objects.get(uid=machine.offered.enrolment)


def test_an_operator_lets_an_agent_in(world: World) -> None:
    operator = browser(world.operator)
    made = operator.post("/enrolments/token/", {"name": "delta", "overlay": "a"})
    text = made.content.decode()
    assert "policyctl enrol agent" in text
    assert made["Cache-Control"] == "no-store"
    machine = Machine("agent", secret_in(text))
    assert secret_in(text) not in operator.get("/enrolments/").content.decode()
    row = asked(machine)
    assert machine.fingerprint in operator.get("/enrolments/").content.decode()
    place = f"/enrolments/{row.uid}/"
    assert machine.fingerprint in operator.get(place).content.decode()
    wrong = operator.post(f"{place}confirm/", {"version": row.version, "digits": "12"})
    assert (wrong.status_code, "refuse the request" in wrong.content.decode()) == (422, True)
    assert not Agent.objects.filter(name="delta").exists()
    digits = machine.fingerprint[-5:]
    operator.post(f"{place}confirm/", {"version": row.version, "digits": digits})
    assert machine.place().name == "delta"
    after = operator.get(place).content.decode()
    assert "takes part" in after
    assert "confirm/" not in after


def test_a_manager_lets_a_client_in_from_the_principals_page(world: World) -> None:
    manager = browser(world.manager)
    page = manager.get("/d/flights/principals/p/United/").content.decode()
    assert "Enrol its client" in page
    made = manager.post("/enrolments/token/", {"principal": world.united.handle})
    machine = Machine("client", secret_in(made.content.decode()))
    row = asked(machine)
    data = {"version": row.version, "digits": machine.fingerprint[-5:]}
    # An auditor sees it and decides nothing; a stranger does not see it at all.
    place = f"/enrolments/{row.uid}/"
    auditor, stranger = browser(world.auditor), browser(world.stranger)
    assert "They are the same" not in auditor.get(place).content.decode()
    auditor.post(f"{place}confirm/", data)
    assert stranger.get(place).status_code == 404
    assert stranger.post(f"{place}confirm/", data).status_code == 404
    assert Enrolment.objects.get().state == "pending"
    manager.post(f"{place}confirm/", data)
    assert machine.place().name == Principal.objects.get(name="United").handle


def test_a_request_is_refused_with_a_reason(world: World) -> None:
    operator = browser(world.operator)
    made = operator.post("/enrolments/token/", {"name": "delta", "overlay": "a"})
    machine = Machine("agent", secret_in(made.content.decode()))
    row = asked(machine)
    place = f"/enrolments/{row.uid}/refuse/"
    assert operator.post(place, {"version": row.version}).status_code == 422
    operator.post(place, {"version": row.version, "reason": "not ours"})
    assert machine.question()[1]["reason"] == "not ours"


def test_managers_make_no_tokens_for_agents(world: World) -> None:
    manager = browser(world.manager)
    assert "Make a token" not in manager.get("/enrolments/").content.decode()
    answer = manager.post("/enrolments/token/", {"name": "delta", "overlay": "a"})
    assert (answer.status_code, "pce_" in answer.content.decode()) == (403, False)
    stranger = browser(world.stranger)
    answer = stranger.post("/enrolments/token/", {"principal": world.united.handle})
    assert answer.status_code == 404
    wrong = browser(world.operator).post("/enrolments/token/", {"name": "alpha", "overlay": "b"})
    assert (wrong.status_code, "stands on overlay" in wrong.content.decode()) == (422, True)
