"""Many agents in one process: each the whole code of an agent, over connections of its own.

It answers commands on standard input, one JSON list a line, and prints what it observes, one JSON
object a line: when an agent has put a notice or a bundle into force, by the agent's own log, and
when a plain message arrived (`echo`), which is what an agent is measured against.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.memory import proportional
from brokers.adapters.brokers_file import BrokersFile
from brokers.adapters.stomp import StompTransport
from brokers.agent.config import AgentConfig
from brokers.agent.service import Agent
from brokers.ports import Message, Outgoing, TransportError

ANSWERS = "pc.bench.answers"


def asked(name: str) -> str:
    """The queue on which plain messages for an agent's echo come."""
    return f"pc.bench.ask.{name}"


def main(argv: Sequence[str]) -> None:
    """Hold agents until the end of standard input."""
    parser = argparse.ArgumentParser()
    for name in ("folder", "brokers", "plain-brokers", "anchors", "overlay", "names"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--lease-interval", type=float, default=5.0)
    options = parser.parse_args(argv)
    host = Host(options)
    _say(kind="memory", bytes=proportional("self"))
    for line in sys.stdin:
        command, *arguments = json.loads(line)
        getattr(host, command)(*arguments)
    host.close()


class Host:
    """Agents, or plain receivers in their places.

    Args:
        options: of the command line.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._names: list[str] = options.names.split(",")
        self._agents: dict[str, Agent] = {}
        self._echoes: list[Echo] = []
        recorder = Recorder(self._agents)
        logger = logging.getLogger("portcullis")
        logger.handlers[:], logger.propagate = [recorder], False
        logger.setLevel(logging.INFO)

    def agents(self) -> None:
        """Start them all."""
        for name in self._names:
            self._agents[name] = Agent(self._config(name))
            self._agents[name].start()
        _say(kind="started", agents=len(self._agents))

    def memory(self) -> None:
        """Tell how much this process takes."""
        _say(kind="memory", bytes=proportional("self"))

    def echo(self) -> None:
        """Take plain messages, one connection for each agent."""
        brokers = BrokersFile.load(Path(self._options.plain_brokers))
        for name in self._names:
            self._echoes.append(Echo(name, StompTransport(brokers.control_broker(), name=name)))
        _say(kind="echoing", agents=len(self._echoes))

    def silence(self) -> None:
        """No more of that."""
        for echo in self._echoes:
            echo.close()
        self._echoes.clear()
        _say(kind="silent")

    def close(self) -> None:
        """Stop everything, at once."""
        stopping = [threading.Thread(target=agent.stop) for agent in self._agents.values()]
        for thread in stopping:
            thread.start()
        for thread in stopping:
            thread.join(30)

    def _config(self, name: str) -> AgentConfig:
        return AgentConfig(
            name=name,
            overlay=self._options.overlay,
            state=Path(self._options.folder) / name,
            brokers_file=Path(self._options.brokers),
            anchors_file=Path(self._options.anchors),
            lease_interval=self._options.lease_interval,
        )


class Echo:
    """A connection that answers every message and says when it came."""

    def __init__(self, name: str, transport: StompTransport) -> None:
        self._name, self._transport = name, transport
        self._ending = threading.Event()
        transport.subscribe(asked(name))
        transport.connect(60)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ending.is_set():
            # A connection that is lost comes back by itself, and the message with it.
            with suppress(TransportError):
                self._answer(self._transport.receive_many(20, 0.2))

    def _answer(self, messages: Sequence[Message]) -> None:
        for message in messages:
            at = time.time()
            self._transport.send_many([Outgoing(ANSWERS, message.body)])
            message.ack()
            _say(kind="echo", agent=self._name, at=at)

    def close(self) -> None:
        """Disconnect."""
        self._ending.set()
        self._thread.join(30)
        self._transport.close()


class Recorder(logging.Handler):
    """Tells what agents log of notices and bundles, and whom each agent then denies.

    Args:
        agents: by name.
    """

    def __init__(self, agents: dict[str, Agent]) -> None:
        super().__init__()
        self._agents = agents
        self._known: dict[str, frozenset[str]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Called in the agent's own thread, right after it has put the thing into force."""
        event = record.getMessage()
        name = record.threadName.removesuffix("-control") if record.threadName else ""
        fields: dict[str, Any] = getattr(record, "portcullis_fields", {})
        if event == "bundle applied":
            _say(kind="bundle", agent=name, at=record.created, revision=fields["revision"])
        elif event == "notice applied":
            denied = self._denied(name, fields["domain"])
            fresh = denied - self._known.get(name, frozenset())
            self._known[name] = denied
            _say(kind="notice", agent=name, at=record.created, denied=sorted(fresh))
        elif record.levelno >= logging.WARNING:
            print(name, event, fields, file=sys.stderr, flush=True)

    def _denied(self, name: str, domain: str) -> frozenset[str]:
        held = self._agents[name]._policy.domains.get(domain)
        return frozenset() if held is None else frozenset(held.snapshot.denied)


_saying = threading.Lock()


def _say(**what: object) -> None:
    line = json.dumps(what)
    with _saying:
        print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
