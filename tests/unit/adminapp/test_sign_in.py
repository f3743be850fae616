"""Guessing passwords is slowed down, by name and by address; the log keeps no secrets."""

from __future__ import annotations

import logging
import time
from typing import Any

import pytest
from django.contrib.auth import authenticate
from django.core.cache import cache
from django.test import RequestFactory

from adminapp.core.http import client_address
from adminapp.core.logs import Redact, redact
from adminapp.identity import services, throttling
from adminapp.identity.models import User

PASSWORD = "a long walk home 7"


@pytest.fixture
def user(db: None) -> User:
    return services.create_user(actor=None, username="Mona", password=PASSWORD)


def attempt(password: str, name: str = "Mona", address: str = "10.0.0.1") -> User | None:
    request = RequestFactory().post("/sign-in/", REMOTE_ADDR=address)
    return authenticate(request, username=name, password=password)


def test_a_right_password(user: User) -> None:
    assert attempt(PASSWORD) == user
    assert attempt("wrong") is None


def test_a_name_has_to_wait_after_some_failures(user: User, settings: Any) -> None:
    settings.SIGN_IN_FAILURES_PER_NAME = 2
    assert [attempt("x"), attempt("x", name="MONA", address="10.0.0.2")] == [None, None]
    assert attempt(PASSWORD, address="10.0.0.3") is None  # right, and too late
    request = RequestFactory().post("/")
    wait = throttling.seconds_to_wait(request, "mona")
    assert 0 < wait <= settings.SIGN_IN_WINDOW_SECONDS
    assert throttling.seconds_to_wait(request, "somebody else") == 0
    cache.clear()
    assert attempt(PASSWORD) == user


def test_success_forgets_the_failures_of_a_name(user: User, settings: Any) -> None:
    settings.SIGN_IN_FAILURES_PER_NAME = 2
    for _ in range(3):
        assert attempt("x") is None
        assert attempt(PASSWORD) == user


def test_an_address_has_to_wait_whatever_names_it_tries(user: User, settings: Any) -> None:
    settings.SIGN_IN_FAILURES_PER_ADDRESS = 3
    for number in range(3):
        attempt("x", name=f"name{number}")
    assert attempt(PASSWORD) is None
    assert attempt(PASSWORD, address="10.0.0.9") == user


def test_the_window_does_not_move(
    user: User, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.SIGN_IN_FAILURES_PER_NAME = 1
    attempt("x")
    request = RequestFactory().post("/")
    first = throttling.seconds_to_wait(request, "Mona")
    now = time.time()
    monkeypatch.setattr(throttling.time, "time", lambda: now + 300)
    attempt("x")
    assert throttling.seconds_to_wait(request, "Mona") <= first - 299


@pytest.mark.parametrize(
    ("trusted", "header", "expected"),
    [
        (0, "1.1.1.1", "10.0.0.1"),
        (1, "", "10.0.0.1"),
        (1, "1.1.1.1", "1.1.1.1"),
        (1, "6.6.6.6, 1.1.1.1", "1.1.1.1"),
        (2, "6.6.6.6, 1.1.1.1, 2.2.2.2", "1.1.1.1"),
        (2, "1.1.1.1", "10.0.0.1"),
    ],
)
def test_addresses_behind_proxies(trusted: int, header: str, expected: str, settings: Any) -> None:
    settings.TRUSTED_PROXIES = trusted
    extra = {"HTTP_X_FORWARDED_FOR": header} if header else {}
    request = RequestFactory().get("/", REMOTE_ADDR="10.0.0.1", **extra)
    assert client_address(request) == expected


@pytest.mark.parametrize(
    ("line", "kept", "gone"),
    [
        ("Authorization: Bearer pct_abcdefgh12345", "Authorization", "abcdefgh"),
        ("using pct_abcdefgh12345 now", "using", "abcdefgh"),
        ("passcode=hunter2, host=b", "host=b", "hunter2"),
        ("password: hunter2", "password", "hunter2"),
        ("postgresql://me:hunter2@db/x", "@db/x", "hunter2"),
    ],
)
def test_the_log_keeps_no_secrets(line: str, kept: str, gone: str) -> None:
    assert kept in redact(line)
    assert gone not in redact(line)
    record = logging.LogRecord("x", logging.INFO, "x", 1, "%s", (line,), None)
    assert Redact().filter(record)
    assert gone not in record.getMessage()


def test_ordinary_lines_stay_as_they_are() -> None:
    record = logging.LogRecord("x", logging.INFO, "x", 1, "agent %s at %d", ("alpha", 3), None)
    Redact().filter(record)
    assert record.args == ("alpha", 3)
