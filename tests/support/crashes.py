"""Agents, brokers and clients killed with `kill -9` under load, at moments drawn from a seed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from brokers.simulation.chance import Chance
from policyengine.primitives.canonical import b64
from tasks.local.activemq import ActiveMQ, write_brokers_file
from tests.support.agent_processes import ROOT, World
from tests.support.crash_client import read
from tests.support.crash_site import (
    LASTING,
    PUBLISHER,
    REVOKED,
    SECRET,
    SUBSCRIPTIONS,
    event,
    organisation,
    wanted,
)
from tests.support.data_plane import wait_until

_PAUSE = 0.03
_PATIENCE = 120.0
_DOMAIN = "flights"


@dataclass
class ClientProcess:
    """One `python -m tests.support.crash_client`."""

    folder: Path
    arguments: tuple[str, ...]
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process; returns at once."""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.crash_client", *self.arguments],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=log,
                stderr=log,
            )

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait; returns the exit status."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(how)
        status = self.process.wait(_PATIENCE * 2)
        self.process = None
        return status

    def kill(self) -> None:
        """kill -9."""
        self.end(signal.SIGKILL)

    def journal(self) -> list[dict[str, Any]]:
        """What it knew to have done."""
        return read(self.folder / "journal")


@dataclass
class Outcome:
    """What came of it; `problems` is empty where everything held."""

    seed: str
    kills: Counter[str] = field(default_factory=Counter)
    published: int = 0
    delivered: dict[str, int] = field(default_factory=dict)
    repeated: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)


class Campaign:
    """Two brokers, three agents, a publisher and three subscribers, all of them processes.

    Args:
        folder: for all files.
        seed: decides who is killed and when, and what is published.
    """

    def __init__(self, folder: Path, seed: str) -> None:
        self._chance = Chance(seed)
        self._seed = seed
        self._outcome = Outcome(seed)
        self._brokers = {name: ActiveMQ(folder / f"amq-{name}", name=name) for name in "ab"}
        self._folder = folder
        self._world = World.make(folder, self._brokers_file, organisation)
        self._clients = {
            short: ClientProcess(
                self._client(short), ("subscribe", str(self._client(short)), short)
            )
            for short in SUBSCRIPTIONS
        }
        own = self._client(PUBLISHER)
        self._clients[PUBLISHER] = ClientProcess(own, ("publish", str(own), seed, str(_PAUSE)))
        self._killed: Counter[str] = Counter()
        self._denied_from: int | None = None

    def _brokers_file(self, account: str) -> Path:
        entries = {name: broker.entry(account) for name, broker in self._brokers.items()}
        return write_brokers_file(self._folder / f"brokers-{account}.json", entries)

    def _client(self, short: str) -> Path:
        return self._folder / self._world.name(short)

    def run(self, *, agents: int, brokers: int, clients: int) -> Outcome:
        """Kill so many of each, then let everything settle and look at it.

        Raises:
            AssertionError: something did not start, or did not go on working.
        """
        started = time.monotonic()
        try:
            self._start()
            victims = ["agent"] * agents + ["broker"] * brokers + ["client"] * clients
            order = self._chance.child("order").sample(victims, len(victims))
            for number, kind in enumerate(order):
                if number == len(order) // 2:
                    self._revoke()
                self._strike(kind, self._chance.child(f"strike/{number}"))
            self._settle()
            self._check()
        finally:
            self._stop()
        self._outcome.seconds = round(time.monotonic() - started, 1)
        return self._outcome

    # what happens

    def _start(self) -> None:
        for broker in self._brokers.values():
            broker.start(timeout=_PATIENCE)
        self._world.start(_PATIENCE)
        for short in SUBSCRIPTIONS:
            self._clients[short].start()
        for short in SUBSCRIPTIONS:
            wait_until(
                lambda short=short: {"subscribed": short} in self._clients[short].journal(),
                f"{short} to subscribe",
                _PATIENCE,
            )
        self._clients[PUBLISHER].start()
        self._progress(5)

    def _strike(self, kind: str, chance: Chance) -> None:
        """Kill one, leave it away for a while, start it again."""
        time.sleep(chance.between(0.0, 1.2))
        choices = {
            "agent": sorted(self._world.agents),
            "broker": sorted(self._brokers),
            "client": sorted(self._clients),
        }
        name = chance.pick(choices[kind])
        victim: Any = {
            **self._world.agents,
            **self._brokers,
            **self._clients,
        }[name]
        victim.kill()
        self._outcome.kills[kind] += 1
        self._killed[name] += 1
        time.sleep(chance.between(0.0, 0.8))
        if isinstance(victim, ActiveMQ):
            victim.start(timeout=_PATIENCE)
        else:
            victim.start()
        # Most strikes fall on a plane at work, some on one that is still getting up.
        if not chance.happens(0.3):
            self._progress(5)

    def _progress(self, number: int) -> None:
        """Wait until so many more events were delivered."""
        before = self._delivered()
        wait_until(
            lambda: self._delivered() >= before + number,
            f"deliveries to go on: {self._state()}",
            _PATIENCE,
        )

    def _delivered(self) -> int:
        return sum(len(self._clients[short].journal()) for short in LASTING)

    def _state(self) -> str:
        return str({short: agent.domain(_DOMAIN) for short, agent in self._world.agents.items()})

    def _revoke(self) -> None:
        """Take one subscriber's rights away; from the last acknowledgement on it gets nothing."""
        control, organised = self._world.control, self._world.organisation
        for short in self._world.agents:
            address = self._world.address(short)
            number = control.notice(organised, address, (self._world.name(REVOKED),))
            wait_until(
                partial(self._told, address, number), f"{short} to apply the notice", _PATIENCE
            )
        begun = [line["begun"] for line in self._clients[PUBLISHER].journal() if "begun" in line]
        self._denied_from = max(begun) + 1

    def _told(self, address: str, number: int) -> bool:
        # Applied and known already: the acknowledgement of before a crash may be lost.
        return any(
            one[0] == number and one[1] in {"applied", "duplicate"}
            for one in self._world.control.statuses(address, "notice")
        )

    def _settle(self) -> None:
        """End publishing, wait for the outbox and for what was kept."""
        publisher = self._clients[PUBLISHER]
        self._must(publisher.end() == 0, "the publisher did not end cleanly")
        last = publisher.journal()[-1]
        self._must(last.get("flushed") is True, f"the outbox was not emptied: {last}")
        self._must(last.get("refused") == [], f"events were refused: {last.get('refused')}")
        deadline = time.monotonic() + _PATIENCE
        while self._missing() and time.monotonic() < deadline:
            time.sleep(0.5)
        time.sleep(1.5)  # doubles, and what must not come, would come now
        for short in SUBSCRIPTIONS:
            self._must(self._clients[short].end() == 0, f"{short} did not end cleanly")
        for short, agent in self._world.agents.items():
            self._must(agent.end() == 0, f"{short} did not end cleanly")

    def _stop(self) -> None:
        for client in self._clients.values():
            client.kill()
        self._world.close()
        for broker in self._brokers.values():
            broker.stop()

    # what came of it

    def _must(self, held: bool, problem: str) -> None:
        if not held:
            self._outcome.problems.append(problem)

    def _kept(self) -> dict[int, str]:
        lines = self._clients[PUBLISHER].journal()
        return {line["kept"]: line["id"] for line in lines if "kept" in line}

    def _wanted(self, short: str, number: int) -> dict[str, Any] | None:
        organised = self._world.organisation
        return wanted(organised, self._world.name(short), short, event(self._seed, number))

    def _missing(self) -> dict[str, list[int]]:
        """Per subscriber, numbers of events that were acknowledged to the publisher and lost."""
        kept = self._kept()
        found: dict[str, list[int]] = {}
        for short in LASTING:
            got = {line["values"]["number"] for line in self._got(short)}
            lost = [n for n in kept if n not in got and self._wanted(short, n) is not None]
            if lost:
                found[short] = sorted(lost)
        return found

    def _got(self, short: str) -> list[dict[str, Any]]:
        return [line for line in self._clients[short].journal() if "got" in line]

    def _check(self) -> None:
        self._outcome.published = len(self._kept())
        for short, lost in self._missing().items():
            self._must(False, f"{short} lost {len(lost)} events: {lost[:10]}")
        for short in SUBSCRIPTIONS:
            self._check_deliveries(short)
        for line in self._got(REVOKED):
            late = self._denied_from is not None and line["values"]["number"] >= self._denied_from
            self._must(not late, f"delivered after the revocation: {line}")
        self._check_logs()

    def _check_deliveries(self, short: str) -> None:
        kept, got = self._kept(), self._got(short)
        begun = max(line["begun"] for line in self._clients[PUBLISHER].journal() if "begun" in line)
        for line in got:
            number = line["values"]["number"]
            right = self._wanted(short, number) if 0 <= number <= begun else None
            same_type = event(self._seed, number).type == line["type"]
            self._must(right == line["values"] and same_type, f"{short} must not have got {line}")
            self._must(
                kept.get(number, line["got"]) == line["got"], f"{number} under another identifier"
            )
        times = Counter(line["got"] for line in got)
        repeated = sum(times.values()) - len(times)
        self._outcome.delivered[short] = len(times)
        self._outcome.repeated[short] = repeated
        # Killed between handling an event and recording that, it sees that one event again.
        self._must(
            repeated <= self._killed[short],
            f"{short} saw {repeated} doubles, killed {self._killed[short]} times",
        )

    def _check_logs(self) -> None:
        organised = self._world.organisation
        keys = [one.keys for one in (*organised.agents.values(), *organised.clients.values())]
        secrets = [b64(key.sealing.private) for key in keys]
        secrets += [b64(key.signing.private) for key in keys]
        secrets += [SECRET, "event.carrier", "subject.role"]
        for folder in [agent.folder for agent in self._world.agents.values()]:
            text = (folder / "log").read_text(encoding="utf-8")
            self._must(bool(text), f"{folder.name} logged nothing")
            for secret in secrets:
                self._must(secret not in text, f"{folder.name} logged a secret")
