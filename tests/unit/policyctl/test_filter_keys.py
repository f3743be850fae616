"""`reading` and `filter-key`: whose keys, how it is told, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from brokers.client import FilterKey, NotAuthorised, TimedOut
from brokers.policyctl import filterkeys
from brokers.policyctl.errors import Exit
from tests.support.policyctl import Scripted, answer, policyctl

PRINCIPALS = answer(200, {"results": [{"id": 4, "name": "ada-2"}, {"id": 3, "name": "ada"}]})
WHO = ("--domain", "flights", "--principal", "ada")


class Asked:
    """Stands where a subscriber does."""

    kept: list[FilterKey]
    error: Exception | None

    def __init__(self, folder: str | Path) -> None:
        self.folder = str(folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None

    def wait_ready(self, timeout: float, *, domain: str | None) -> None:
        assert (timeout, domain) == (3.0, None)

    @property
    def filter_keys(self) -> tuple[FilterKey, ...]:
        return tuple(self.kept)

    def filter_key(self, kind: str, names: Iterable[str], *, timeout: float) -> FilterKey:
        if self.error is not None:
            raise self.error
        made = FilterKey(kind, tuple(sorted(names)), (2,), "")
        self.kept.append(made)
        return made

    def forget_filter_key(self, kind: str, names: Iterable[str]) -> None:
        self.kept[:] = [each for each in self.kept if each.attributes != tuple(sorted(names))]


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[FilterKey]:
    monkeypatch.setattr(filterkeys, "Subscriber", Asked)
    monkeypatch.setattr(Asked, "kept", found := [], raising=False)
    monkeypatch.setattr(Asked, "error", None, raising=False)
    return found


def run(*arguments: str) -> tuple[int, list[Any], str]:
    done = policyctl("filter-key", "--profile", "here", "--wait", "3", *arguments)
    return done.code, [json.loads(line) for line in done.out.splitlines()], done.err


def test_it_asks_lists_and_forgets(kept: list[FilterKey]) -> None:
    told = {"type": "Quote", "attributes": ["price", "sym"], "epochs": [2], "reason": ""}
    assert run("Quote", "sym", "price") == (Exit.OK, [told], "")
    assert run() == (Exit.OK, [told], "")
    assert run("Quote", "price", "sym", "--forget") == (Exit.OK, [], "")
    assert run() == (Exit.OK, [], "")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NotAuthorised("not-authorised", "ada may not read `price`"), Exit.REFUSED),
        (TimedOut("timeout", "no answer"), Exit.UNREACHABLE),
    ],
)
def test_a_refusal_is_told_with_its_reason(
    kept: list[FilterKey], monkeypatch: pytest.MonkeyPatch, error: NotAuthorised, code: Exit
) -> None:
    monkeypatch.setattr(Asked, "error", error)
    found, lines, told = run("Quote", "price")
    assert (found, lines) == (code, [])
    assert error.message in told
    assert kept == []


def test_a_manager_says_how_a_client_reads() -> None:
    for on, way in ((True, "filters"), (False, "policies")):
        server = Scripted([PRINCIPALS, answer(200, {"by_filters": on})])
        done = policyctl("reading", *WHO, "--by", way, transport=server)
        assert (done.code, done.out) == (Exit.OK, f"ada reads by {way}\n")
        asked = server.calls[-1]
        assert (asked.method, asked.path) == ("POST", "/principals/3/reading")
        assert json.loads(asked.body or b"") == {"by_filters": on}
    server = Scripted([PRINCIPALS, answer(200, {"by_filters": True})])
    done = policyctl("reading", *WHO, "-o", "json", transport=server)
    assert json.loads(done.out) == {"by_filters": True}
    assert server.calls[-1].method == "GET"
    server = Scripted([answer(200, {"results": []})])
    assert policyctl("reading", *WHO, transport=server).code == Exit.ERROR
