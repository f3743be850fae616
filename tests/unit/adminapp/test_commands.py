"""Commands for operators."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from django.contrib.auth.hashers import check_password
from django.core.management import CommandError, call_command

from adminapp.identity.models import Agent, Principal, User
from tests.support.control_plane import World, key


def run(*arguments: str) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


def test_an_operator_gets_a_random_password_once(db: None) -> None:
    first = json.loads(run("create_operator", "--username", "olga", "--json"))
    user = User.objects.get(username="olga")
    assert user.is_superuser
    assert check_password(first["password"], user.password)
    with pytest.raises(CommandError, match="--reset"):
        run("create_operator", "--username", "olga")
    text = run("create_operator", "--username", "olga", "--reset")
    user.refresh_from_db()
    assert check_password(text.split()[-1], user.password)
    assert first["password"] not in text


@pytest.fixture
def keys(tmp_path: Path) -> str:
    file = tmp_path / "public.json"
    file.write_text(
        json.dumps({"name": "delta", "sealing_key": key(1), "verify_key": key(2)}),
        encoding="utf-8",
    )
    return str(file)


def test_registering_an_agent_twice_changes_nothing(world: World, keys: str) -> None:
    arguments = ("register_agent", "--name", "delta", "--overlay", "b", "--keys", keys)
    assert "is registered on overlay b" in run(*arguments)
    agent = Agent.objects.get(name="delta")
    assert (agent.sealing_key, agent.verify_key) == (key(1), key(2))
    assert "already" in run(*arguments)
    with pytest.raises(CommandError, match="another overlay or keys"):
        run("register_agent", "--name", "delta", "--overlay", "a", "--keys", keys)
    with pytest.raises(CommandError, match="no overlay"):
        run("register_agent", "--name", "x", "--overlay", "z", "--keys", keys)


def test_registering_a_client(world: World, keys: str) -> None:
    for name in ("United", world.united.handle):
        run("register_client", "--domain", "flights", "--principal", name, "--keys", keys)
    row = Principal.objects.get(name="United")
    assert (row.sealing_key, row.version) == (key(1), 2)
    with pytest.raises(CommandError, match="no principal"):
        run("register_client", "--domain", "heating", "--principal", "United", "--keys", keys)


@pytest.mark.parametrize("content", ["{", "[]", '{"sealing_key": "x"}'])
def test_keys_that_cannot_be_read(content: str, world: World, tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text(content, encoding="utf-8")
    for source in (str(file), str(tmp_path / "missing")):
        with pytest.raises(CommandError):
            run("register_agent", "--name", "x", "--overlay", "a", "--keys", source)
    assert Agent.objects.count() == 3
