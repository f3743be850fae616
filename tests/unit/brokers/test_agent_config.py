"""The agent's command line and its configuration file."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokers.adapters.brokers_file import BrokerConfig, ConfigurationError, TlsConfig
from brokers.adapters.logs import JsonLines, log, log_failure, told_to_people
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
        ("name = 1 2", r"agent.toml: .*line 1"),
        (GOOD.replace('name = "alpha"', ""), r"agent.toml: `name`: missing"),
        (GOOD + "colour = 1", r"agent.toml:7: `colour`: unknown setting"),
        (GOOD.replace("alpha", "Al pha"), r"agent.toml:2: `name`: `Al pha` is not a name"),
        (GOOD + "http_port = 99999", r":7: `http_port`: 99999 is not between 0 and 65535"),
        (GOOD + "batch = 0", r":7: `batch`: 0 is not between"),
        (GOOD + "batch = 1.5", r":7: `batch`: a whole number is expected"),
        (GOOD + 'batch = "many"', r":7: `batch`: a whole number is expected"),
        (GOOD + "batch = true", r":7: `batch`: a whole number is expected"),
        (GOOD + "\n  state2 = 1", r":8: `state2`: unknown"),
        (GOOD + "lease_interval = nan", r"`lease_interval`: nan is not between"),
        (GOOD + 'log_level = "LOUD"', r":7: `log_level`: `LOUD` is none of"),
        (GOOD + "inbox_bytes = 1", r":7: `inbox_bytes`"),
        (GOOD + "tls = 1", r":7: `tls`: a table is expected"),
        (GOOD + "[tls]\nca = 'nothing.pem'", r":8: `tls.ca`: there is no file"),
        (GOOD + "[tls]\ncolour = 1", r":8: `tls.colour`: unknown setting"),
        (GOOD + "[tls]", r"`tls.ca`: missing"),
        (GOOD + "[tls]\nca = 7", r":8: `tls.ca`: text is expected"),
        (GOOD.replace('"state"', "7"), r":4: `state`: text is expected"),
    ],
)
def test_mistakes_are_named_with_their_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        AgentConfig.load(_write(tmp_path, text))


def test_an_agent_may_have_tls_files_of_its_own(tmp_path: Path) -> None:
    for name in ("ca.pem", "own.pem", "own.key"):
        (tmp_path / name).write_text("pem")
    text = GOOD + '[tls]\nca = "ca.pem"\ncertificate = "own.pem"\nkey = "own.key"\n'
    (tmp_path / "own.key").chmod(0o640)
    with pytest.raises(ConfigurationError, match=r":10: `tls.key`: others may read"):
        AgentConfig.load(_write(tmp_path, text))
    (tmp_path / "own.key").chmod(0o600)
    config = AgentConfig.load(_write(tmp_path, text))
    broker = config.secured(BrokerConfig("h", 1, tls=TlsConfig("other.pem")))
    assert broker.tls == TlsConfig(
        str(tmp_path / "ca.pem"), str(tmp_path / "own.pem"), str(tmp_path / "own.key")
    )
    assert AgentConfig.load(_write(tmp_path, GOOD)).secured(broker) == broker


def test_a_state_folder_is_closed_to_others(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    assert main(["init", "--name", "alpha", "--overlay", "a", "--state", str(folder)]) == 0
    assert folder.stat().st_mode & 0o777 == 0o700


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


def test_whoever_sits_at_a_shell_is_told_warnings_in_words() -> None:
    logger, stream = logging.getLogger("portcullis.test"), io.StringIO()
    logger.setLevel(logging.DEBUG)
    with told_to_people("policyctl", stream):
        log(logger, logging.INFO, "applied", domain="flights")
        log(logger, logging.WARNING, "rejected", what="lease", reason="signature")
        log(logger, logging.WARNING, "nothing came")
        try:
            int("a secret value")
        except ValueError:
            log_failure(logger, "failed", domain="flights")
    log(logger, logging.WARNING, "afterwards")
    assert stream.getvalue().splitlines() == [
        "policyctl: rejected (what lease, reason signature)",
        "policyctl: nothing came",
        "policyctl: failed (domain flights, exception ValueError)",
    ]
