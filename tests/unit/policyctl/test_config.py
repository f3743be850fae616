"""Where the token may come from, and where it may go."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from brokers.policyctl.config import Target, read_token, target
from brokers.policyctl.errors import Exit, Stop
from tests.support.policyctl import TOKEN, policyctl

SERVER = "https://portcullis.example"


def token_file(folder: Path, mode: int = 0o600, text: str = TOKEN + "\n") -> Path:
    path = folder / "token"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_from_the_environment() -> None:
    found = target({"PORTCULLIS_SERVER": SERVER + "/api/v1/", "PORTCULLIS_TOKEN": TOKEN})
    assert found == Target(SERVER, TOKEN)


def test_the_command_line_wins(tmp_path: Path) -> None:
    environment = {"PORTCULLIS_SERVER": "https://other.example", "PORTCULLIS_TOKEN": "x"}
    found = target(environment, server=SERVER, token_file=token_file(tmp_path))
    assert (found.server, found.token) == (SERVER, TOKEN)


def test_a_file_named_by_the_environment(tmp_path: Path) -> None:
    environment = {"PORTCULLIS_TOKEN_FILE": str(token_file(tmp_path, 0o400))}
    assert target(environment, server=SERVER).token == TOKEN


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660, 0o601, 0o777])
def test_a_file_that_others_may_touch(mode: int, tmp_path: Path) -> None:
    with pytest.raises(Stop) as stop:
        read_token(token_file(tmp_path, mode))
    assert stop.value.code == Exit.SIGNED_OUT
    assert f"{mode:04o}" in stop.value.message
    assert "chmod 600" in stop.value.message


def test_a_file_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = token_file(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(Stop, match="somebody else"):
        read_token(path)


@pytest.mark.parametrize("text", ["", "pct_", "secret", TOKEN + " x", TOKEN + "\npct_b", "\u00e9"])
def test_what_is_no_token(text: str, tmp_path: Path) -> None:
    with pytest.raises(Stop) as stop:
        target({}, server=SERVER, token_file=token_file(tmp_path, text=text))
    assert stop.value.code == Exit.SIGNED_OUT
    assert text.strip() not in stop.value.message or text == "" or text in "pct_"


def test_folders_and_files_that_are_not_there(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(Stop) as stop:
            read_token(path)
        assert stop.value.code == Exit.SIGNED_OUT


def test_without_a_token_nothing_is_asked() -> None:
    ended = policyctl("--server", SERVER, "access")
    assert ended.code == Exit.SIGNED_OUT
    assert "PORTCULLIS_TOKEN" in ended.err


@pytest.mark.parametrize(
    ("server", "reason"),
    [
        ("", "name the server"),
        ("portcullis.example", "no address"),
        ("ftp://portcullis.example", "no address"),
        ("https://mona:secret@portcullis.example", "no name and no password"),
        ("http://portcullis.example", "in clear"),
        ("http://10.0.0.1", "in clear"),
        ("http://127.0.0.1.example", "in clear"),
    ],
)
def test_servers_that_get_no_token(server: str, reason: str) -> None:
    ended = policyctl("--server", server, "access", environment={"PORTCULLIS_TOKEN": TOKEN})
    assert ended.code == Exit.ERROR
    assert reason in ended.err


@pytest.mark.parametrize("server", ["http://localhost:1", "http://127.0.0.1:1", "http://[::1]:1"])
def test_loopback_needs_no_certificate(server: str) -> None:
    ended = policyctl("--server", server, "access", environment={"PORTCULLIS_TOKEN": TOKEN})
    assert ended.code == Exit.UNREACHABLE


def test_a_token_is_never_an_argument() -> None:
    for words in (("--token", TOKEN), (f"--token={TOKEN}",), ("--token-fil", TOKEN)):
        ended = policyctl(*words, "--server", SERVER, "access")
        assert ended.code == Exit.ERROR
        assert TOKEN not in ended.err + ended.out


def test_certificates_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_text("nothing")
    ended = policyctl(
        "--server", SERVER, "--ca", str(path), "access", environment={"PORTCULLIS_TOKEN": TOKEN}
    )
    assert ended.code == Exit.ERROR
    assert "no certificates" in ended.err
