"""Schemathesis over the whole OpenAPI document: whatever it sends, the answer is as documented.

It calls the application in this process, as a manager, with a fixed seed; every call is undone. An
operation that is added to the API is in the document and therefore here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import hypothesis
import pytest
import schemathesis
from django.core.wsgi import get_wsgi_application
from django.db import transaction
from django.test import Client
from drf_spectacular.generators import SchemaGenerator
from hypothesis import HealthCheck, Phase
from schemathesis.checks import not_a_server_error
from schemathesis.core.media_types import YAML_MEDIA_TYPES
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from adminapp.core.authority import AuthorityClient
from adminapp.identity.services import issue_token
from tests.support.api_rows import unthrottle
from tests.support.control_plane import World

API = "/api/v1"
JSON = "application/json"
PROBLEM = "application/problem+json"
# Questions that are too long for an address: they need no right to write.
ASKED_BY_POST = {"POST /api/v1/plan", "POST /api/v1/explain"}
# Who asks to be let in has no token of the API yet: what it sends proves who it is.
OPEN = {"POST /api/v1/enrol", "POST /api/v1/enrol/question", "POST /api/v1/enrol/renew"}
NOWHERE = 10**9
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
MODES = {
    "sound": (GenerationMode.POSITIVE, CHECKS, 5),
    "unsound": (GenerationMode.NEGATIVE, [*CHECKS, negative_data_rejection], 4),
}


@schemathesis.deserializer(*YAML_MEDIA_TYPES)
def _as_text(_context: Any, response: Any) -> str:
    """Exports are several documents, described as text."""
    return str(response.text)


@cache
def document() -> dict[str, Any]:
    found: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)
    return found


@cache
def operations() -> list[Any]:
    """Every operation of the document, ready to be called in this process."""
    schema = schemathesis.openapi.from_dict(document())
    schema.app = get_wsgi_application()
    return [result.ok() for result in schema.get_all_operations()]


@contextmanager
def undone() -> Iterator[None]:
    """What happens inside never was."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


@pytest.fixture
def manager(world: World) -> dict[str, str]:
    return bearer(world, "read", "write", "revoke")


def bearer(world: World, *scopes: str) -> dict[str, str]:
    _token, secret = issue_token(
        actor=world.manager, user=world.manager, name="robot", scopes=scopes
    )
    return {"Authorization": f"Bearer {secret}"}


def known(path: str, headers: dict[str, str]) -> dict[str, Any] | None:
    """Parameters of the path that name an object which exists, or None without one."""
    names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    collection = path.partition("/{")[0]
    found = Client().get(collection, {"limit": 1}, headers=headers)
    if found.status_code != 200 or not found.json().get("results"):
        return None
    first = found.json()["results"][0]
    return {name: first.get(name, 1) for name in names}


def problems_of(case: Any, headers: dict[str, str], checks: list[Any]) -> list[str]:
    """Call and say what is wrong with the answer."""
    with undone():
        response = case.call(headers=headers)
        try:
            case.validate_response(response, checks=checks)
        except schemathesis.errors.FailureGroup as group:
            said = f"{case.operation.label} {case.query} {case.body!r:.300} {response.text:.300}"
            return [f"{each}\n{said}" for each in group.exceptions]
    return []


def explore(
    operation: Any, mode: str, headers: dict[str, str], path: dict[str, Any] | None
) -> list[str]:
    """Let Schemathesis try an operation; the first failure of each kind."""
    generation, checks, examples = MODES[mode]
    versioned = any(each.name == "If-Match" for each in operation.iter_parameters())
    sent = headers | ({"If-Match": "*"} if versioned else {})
    found: list[str] = []

    @hypothesis.settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(case=operation.as_strategy(generation_mode=generation, path_parameters=path))
    def run(case: Any) -> None:
        found.extend(problems_of(case, sent, checks))

    run()
    return found[:2]


@pytest.fixture(autouse=True)
def _unthrottled(monkeypatch: pytest.MonkeyPatch) -> None:
    unthrottle(monkeypatch)
    monkeypatch.setattr(AuthorityClient, "create_key", lambda _client, name: f"wrapped {name}")


@pytest.mark.parametrize("mode", MODES)
def test_whatever_is_sent(mode: str, world: World, manager: dict[str, str]) -> None:
    wrong: list[str] = []
    for operation in operations():
        paths: list[Any] = [None]
        if "{" in operation.full_path:
            paths.append(known(operation.full_path, manager))
        for path in {str(each): each for each in paths}.values():
            wrong += explore(operation, mode, manager, path)
    assert not wrong, "\n\n".join(wrong)


def bodies(operation: Any, path: dict[str, Any]) -> Any:
    """A body that the operation takes, made once and for all."""
    found: list[Any] = []

    @hypothesis.settings(
        max_examples=1,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(case=operation.as_strategy(path_parameters=path))
    def run(case: Any) -> None:
        found.append(case)

    run()
    return found[0]


def answer(operation: Any, path: dict[str, Any] | None, headers: dict[str, str]) -> Any:
    """The answer to a sound call, checked against the document."""
    case = bodies(operation, path or {})
    with undone():
        response = case.call(headers={"If-Match": "*", **headers})
        case.validate_response(response, checks=CHECKS)
    return response


def test_strangers_to_every_operation_are_turned_away(world: World) -> None:
    for operation in operations():
        path = dict.fromkeys(part[1:-1] for part in operation.full_path.split("/") if "{" in part)
        found = answer(operation, dict.fromkeys(path, 1), {})
        assert (found.status_code == 400) == (operation.label in OPEN), operation.label
        if operation.label in OPEN:
            continue
        assert found.status_code == 401, operation.label
        assert found.headers["content-type"] == [PROBLEM], operation.label
        assert found.headers["www-authenticate"], operation.label


def test_a_token_that_reads_changes_nothing(world: World) -> None:
    """And one that only writes reads nothing."""
    headers = {"reads": bearer(world, "read"), "writes": bearer(world, "write", "revoke")}
    for operation in operations():
        path = dict.fromkeys(
            (part[1:-1] for part in operation.full_path.split("/") if "{" in part), 1
        )
        if operation.label in ASKED_BY_POST | OPEN:
            continue
        wrong = headers["writes" if operation.method == "get" else "reads"]
        assert answer(operation, path, wrong).status_code in (401, 403), operation.label


def test_what_does_not_exist_is_not_found(world: World, manager: dict[str, str]) -> None:
    for operation in operations():
        names = [part[1:-1] for part in operation.full_path.split("/") if "{" in part]
        if names and needs_no_session(operation):
            found = answer(operation, dict.fromkeys(names, NOWHERE), manager)
            assert found.status_code in (404, 403), (operation.label, found.text)
            assert found.status_code == 404 or "permission" in found.text, operation.label


def needs_no_session(operation: Any) -> bool:
    """Tokens themselves are made and withdrawn in a session alone."""
    return operation.method == "get" or "tokens" not in operation.full_path


def test_every_change_asks_for_the_version(world: World, manager: dict[str, str]) -> None:
    """Without If-Match 428, with a stale one 412 and the object as it is."""
    seen = 0
    for operation in operations():
        if operation.method not in ("put", "patch", "delete"):
            continue
        path = known(operation.full_path, manager)
        if path is None or not needs_no_session(operation):
            continue
        url = operation.full_path.format(**path)
        found = Client().get(url, headers=manager)
        if found.status_code != 200:
            continue
        body = {} if operation.method != "put" else found.json()
        codes, shown = [], None
        for more in ({}, {"If-Match": '"987654"'}):
            with undone():
                done = Client().generic(
                    operation.method.upper(), url, json.dumps(body), JSON, headers=manager | more
                )
            codes.append(done.status_code)
            shown = done.json().get("current")
        if codes[1] == 403:  # the platform's, and what only operators do
            continue
        assert codes == [428, 412], (operation.label, codes)
        assert found.json().items() <= (shown or {}).items(), operation.label
        seen += 1
    assert seen >= 20
