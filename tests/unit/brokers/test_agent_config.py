"""The agent's command line and its configuration file."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokers.adapters.brokers_file import ConfigurationError
from brokers.adapters.logs import JsonLines, log, log_failure
from brokers.agent.__main__ import main
from brokers.agent.config import AgentConfig

GOOD = """
name = "alpha"
overlay = "a"
state = "state"
brokers_file = "brokers.json"
anchors_file = "/anchors.json"
"""


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """`run` takes over the logger of the whole process."""
    root = logging.getLogger("portcullis")
    before = (root.handlers[:], root.propagate, root.level)
    yield
    root.handlers[:], root.propagate = before[0], before[1]
    root.setLevel(before[2])


def _write(folder: Path, text: str) -> Path:
    path = folder / "agent.toml"
    path.write_text(text)
    return path


def test_relative_paths_count_from_the_file(tmp_path: Path) -> None:
    config = AgentConfig.load(_write(tmp_path, GOOD + "http_port = 8123\nlease_interval = 1.5\n"))
    assert config.state == tmp_path / "state"
    assert config.anchors_file == Path("/anchors.json")
    assert (config.http_port, config.lease_interval) == (8123, 1.5)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = 1 2", "agent.toml"),
        (GOOD.replace('name = "alpha"', ""), "missing name"),
        (GOOD + "colour = 1", "unknown colour"),
        (GOOD.replace("alpha", "Al pha"), "not a name"),
        (GOOD + "http_port = 99999", "not a port"),
        (GOOD + "batch = 0", "above 0"),
        (GOOD + 'batch = "many"', "many"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        AgentConfig.load(_write(tmp_path, text))


def test_init_prints_public_keys_and_keeps_the_private_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["init", "--name", "alpha", "--overlay", "a", "--state", str(tmp_path / "s")]
    assert main(arguments) == 0
    first = json.loads(capsys.readouterr().out)
    assert set(first) == {"name", "overlay", "sealing_key", "verify_key"}
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out) == first
    keys = tmp_path / "s" / "keys.json"
    assert keys.stat().st_mode & 0o777 == 0o600
    assert first["sealing_key"] not in keys.read_text()


def test_a_mistake_is_one_line_and_a_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "--name", "A", "--overlay", "a", "--state", str(tmp_path)]) == 2
    assert main(["run", "--config", str(tmp_path / "nothing.toml")]) == 2
    assert main(["run", "--config", str(_write(tmp_path, GOOD))]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("brokers.agent: ") for line in lines)


def test_logs_are_json_and_say_nothing_of_an_exceptions_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logger = logging.getLogger("portcullis.test")
    with caplog.at_level(logging.INFO, logger="portcullis.test"):
        log(logger, logging.INFO, "hello", domain="flights", number=3)
        try:
            int("the tail number is N14228")
        except ValueError:
            log_failure(logger, "failed", queue="q")
    first, second = (json.loads(JsonLines().format(record)) for record in caplog.records)
    assert (first["event"], first["domain"], first["number"]) == ("hello", "flights", 3)
    assert (second["exception"], second["queue"]) == ("ValueError", "q")
    assert "N14228" not in json.dumps(second)
