"""Every kind of part of a real site killed with `kill -9` at moments drawn from a seed.

Clients publish and read all the time, people lose and get rights, keys are rotated, Spark makes
new epochs, and three lanes of kills go on side by side. What happened is told by those who saw
it (clients' histories, agents' logs, pages and disks, this play) and judged by `fault_verdict`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from brokers.simulation.chance import Chance
from tests.support import fault_plan
from tests.support.fault_client import history_of
from tests.support.fault_domain import DOMAIN
from tests.support.fault_letters import letters
from tests.support.fault_plan import DRIVER, Strike
from tests.support.fault_site import FaultSite, Through, directly
from tests.support.fault_verdict import (
    agent_lines,
    converged_after,
    disk_revision,
    judged_receipts,
    latest_delivery,
    unproven,
    verdict,
)
from tests.support.histories import History, Line, merged
from tests.support.ports import wait_until
from tests.support.processes import Running, wait_gone
from tests.support.sidebyside import together

_PATIENCE = 180.0
_ENDED = {"done", "superseded", "failed"}
_SAYS = {
    "worker": " ready.",
    "relay": "relaying the outbox",
    "beat": "beat: Starting",
    "serve-1": "answering agents",
    "serve-2": "answering agents",
    "authority": "answering",
}
"""What a process says once it works."""


@dataclass
class Outcome:
    """What came of it; `problems` is empty where everything held."""

    seed: str
    kills: Counter[str] = field(default_factory=Counter)
    changes: Counter[str] = field(default_factory=Counter)
    published: int = 0
    accepted: int = 0
    delivered: int = 0
    aside: int = 0
    """In agents' dead letters."""
    runs: dict[str, int] = field(default_factory=dict)
    """Recomputes by how they ended."""
    converged: float = 0.0
    """Seconds from the last repair until all agents held the newest revision."""
    settled: float = 0.0
    """Seconds from the last repair until nothing was left to do."""
    latest: float = 0.0
    """Seconds after T0 of the last delivery to a revoked party."""
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)


class Faults:
    """One play on a site of its own.

    Args:
        folder: for all files.
        seed: decides who is killed and when, and what is published.
        each: how often each kind of part is killed.
        through: what stands between the parts.
    """

    limit = 30.0
    """Seconds after T0 from which a revoked party gets nothing, whatever happens meanwhile."""
    pauses = (1.0, 6.0)
    """Seconds before a change."""

    def __init__(self, folder: Path, seed: str, *, each: int, through: Through = directly) -> None:
        self._seed, self._each = seed, each
        self._cast = fault_plan.cast(each)
        self._folder = folder
        self.site = FaultSite(
            folder / "site", through=through, environment={"PYTHONUNBUFFERED": "1"}
        )
        self.outcome, self.history = Outcome(seed), History()
        self._letters: list[Line] = []
        self._asking, self._end = threading.Lock(), threading.Event()
        self._clients: dict[str, Running] = {}
        self._begun: dict[str, int] = {}

    def run(self) -> Outcome:
        """Play, and judge.

        Raises:
            AssertionError: something did not start.
            TimeoutError: something did not go on.
        """
        started = time.monotonic()
        watch = threading.Thread(target=self._watch, name="pages")
        try:
            self._start()
            watch.start()
            together([*self._trouble(), self._change], end=self._end)
            self._repaired()
            self._settle()
            self._still_running()
        finally:
            self._end.set()
            if watch.ident is not None:
                watch.join()
            for client in self._clients.values():
                client.stop()
            self.site.stop()
        self._judge()
        self.outcome.seconds = round(time.monotonic() - started, 1)
        return self.outcome

    # the beginning

    def _start(self) -> None:
        self.site.start(str(self._cast.write(self._folder / "plant.yaml")))
        self.site.wait_current(DOMAIN, _PATIENCE)
        self._client("subscribe")
        lasting = [name for name in self._cast.subscribers if not name.startswith("late")]
        wait_until(
            lambda: all(self._has(name, "subscribed") for name in lasting),
            seconds=_PATIENCE, what="subscriptions",
        )  # fmt: skip
        self._client("publish")
        wait_until(
            lambda: self._has("guard-1", "delivered"), seconds=_PATIENCE, what="events to flow"
        )

    def _client(self, verb: str) -> None:
        folder = str(self.site.folder / "clients")
        cast = json.dumps(asdict(self._cast))
        self._clients[verb] = Running(
            [sys.executable, "-m", "tests.support.fault_client", verb, self._seed, cast, folder],
            log=self._folder / f"{verb}.log",
        )

    def _has(self, name: str, what: str) -> bool:
        path = history_of(Path(self.site.profiles[name]))
        return path.exists() and any(line["what"] == what for line in merged([path]))

    # kills

    def _trouble(self) -> list[Callable[[], None]]:
        """What goes on side by side while people change things."""
        lanes = fault_plan.lanes(self._seed, self._each)
        return [*(partial(self._lane, lane) for lane in lanes), self._kill_drivers]

    def _lane(self, strikes: list[Strike]) -> None:
        for strike in strikes:
            if self._end.wait(strike.pause):
                return
            if strike.at_work:
                wait_until(
                    lambda part=strike.part: self._end.is_set() or self._works(part),
                    seconds=_PATIENCE, what=f"{strike.part} to work",
                )  # fmt: skip
            self.site.kill(strike.part)
            self.outcome.kills[strike.kind] += 1
            self._note_disk(strike.part)
            self._end.wait(strike.away)
            log = self.site.folder / f"{strike.part}.log"
            self._begun[strike.part] = log.stat().st_size if log.exists() else 0
            self.site.again(strike.part)

    def _works(self, part: str) -> bool:
        if part in self.site.servers:
            return True  # it was waited for
        if part in self.site.agents:
            return bool(self.site.status(part))
        log = self.site.parts[part].log.read_bytes()[self._begun.get(part, 0) :]
        return _SAYS[part].encode() in log

    def _kill_drivers(self) -> None:
        """Somebody's end asks Spark for a new epoch; each run's driver is killed, some twice."""
        chance = Chance(f"{self._seed}/drivers")
        victims = self._cast.names("tenant")[-(self._each + fault_plan.SPARE) :]
        for number in range(self._each):
            if number % 2 == 0:
                self._revoke("end-principal", victims.pop(0), "yes")
            latest = 5.0
            while not self._end.is_set():
                pid = self._driver(victims)
                pause, latest = chance.between(0.0, latest), latest / 4  # on a quick machine sooner
                if pid and not self._end.wait(pause):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                        self.outcome.kills[DRIVER] += 1
                        wait_gone(pid, seconds=_PATIENCE)
                        break

    def _driver(self, victims: list[str]) -> int:
        """A process that drives Spark; where none comes any more another end asks for one."""
        end, looked = time.monotonic() + _PATIENCE, time.monotonic()
        while not self._end.wait(0.1):
            if found := self.site.drivers():
                return found[0]
            if time.monotonic() < looked + 1.0:
                continue
            state, looked = self._look(), time.monotonic()
            if state["revocations"] == 0 and victims:
                self._revoke("end-principal", victims.pop(0), "yes")
            if looked > end:
                raise TimeoutError(f"no driver of Spark within {_PATIENCE} s: {state}")
        return 0

    def _note_disk(self, name: str) -> None:
        if name in self.site.agents:
            revision = disk_revision(self.site.folder / name / "state" / "trusted.json")
            self._applied(name, revision, "disk")

    def _applied(self, agent: str, revision: int, by: str) -> None:
        self.history.note(
            "applied", who=agent, domain=DOMAIN, kind="bundle", number=revision, by=by
        )

    # what people do meanwhile

    def _changes(self) -> list[Callable[[], object]]:
        """What is asked for, one after the other in an order from the seed."""
        return [
            partial(self._revoke, "end-principal", "meter-2", "no"),
            partial(self._revoke, "end-principal", "tenant-3", "no"),
            partial(self._revoke, "end-appointment", "guard-0"),
            partial(self._other, "appoint", "late-0"),
            partial(self._other, "rotate", DOMAIN),
            partial(self._other, "rotate", DOMAIN),
        ]

    def _change(self) -> None:
        chance = Chance(f"{self._seed}/changes")
        works = self._changes()
        for work in chance.sample(works, len(works)):
            if self._end.wait(chance.between(*self.pauses)):
                return
            work()
            self._look()

    def _revoke(self, command: str, name: str, *more: str) -> None:
        found = self._insist(command, name, *more)
        self.history.note("revoked", who=name, at=found["t0"], notices=found["notices"])
        self.outcome.changes[command] += 1

    def _other(self, command: str, about: str) -> None:
        self._insist(command, about)
        self.outcome.changes[command] += 1

    def _insist(self, command: str, *arguments: str) -> Any:
        """Ask until it is done: whatever it needs may be dead just now."""
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                with self._asking:
                    return self.site.call(command, *arguments)
            except AssertionError:
                if self._end.wait(0.3) or time.monotonic() > end:
                    raise

    def _look(self) -> dict[str, Any]:
        """What is under way; nothing may be out that is not finished."""
        found: dict[str, Any] = self._insist("state", DOMAIN)
        self.outcome.problems += found["early"]
        return found

    def _watch(self) -> None:
        """Note what agents' pages say, as often as that changes."""
        seen: dict[str, int] = {}
        stood: dict[str, str] = {}
        while not self._end.wait(0.5):
            for agent in self.site.agents:
                page = self.site.status(agent).get("domains", {}).get(DOMAIN, {})
                standing = str(page.get("standing", "away"))
                if standing != stood.get(agent):
                    self.history.note("stood", who=agent, standing=standing)
                    stood[agent] = standing
                revision = int(page.get("revision", 0))
                if revision and revision != seen.get(agent):
                    self._applied(agent, revision, "page")
                    seen[agent] = revision

    # the end

    def _repaired(self) -> None:
        """Everything was started again: within a minute all agents hold what is newest now."""
        started = time.monotonic()
        revision = self._look()["revision"]
        self.history.note(
            "repaired", domain=DOMAIN, revision=revision, agents=sorted(self.site.agents)
        )
        end = time.monotonic() + _PATIENCE
        while left := self._under_way():
            if time.monotonic() > end:
                raise TimeoutError(f"{_PATIENCE} s after the repair there is left to do: {left}")
            time.sleep(0.5)
        self.site.wait_current(DOMAIN, _PATIENCE)
        self.outcome.settled = round(time.monotonic() - started, 1)
        self.outcome.problems += self._insist("published-half", DOMAIN)

    def _under_way(self) -> dict[str, Any]:
        """What is not done yet; {} where everything is."""
        state = self._look()
        if state["failed"]:
            raise AssertionError(f"work failed for good: {state['failed']}")
        left = {name: state[name] for name in ("noticed", "rollouts", "revocations", "waiting")}
        left["jobs"] = [job for job in state["jobs"].values() if job[0] not in _ENDED]
        return {name: value for name, value in left.items() if value}

    def _settle(self) -> None:
        """Events go on until the last revocation is long over; then all that flows arrives."""
        last = max(line["at"] for line in self.history.lines if line["what"] == "revoked")
        self._end.wait(max(0.0, last + self.limit + 1 - time.time()))
        self._must(self._clients["publish"].stop(seconds=_PATIENCE) == 0, "publishers broke")
        end = time.monotonic() + _PATIENCE
        while self._lacking() and time.monotonic() < end:
            self._letters += letters(self.site)
        time.sleep(1.0)  # doubles, and what must not come, would come now
        self._letters += letters(self.site)
        self.history.note("settled")
        self._must(self._clients["subscribe"].stop(seconds=_PATIENCE) == 0, "subscribers broke")

    def _lacking(self) -> bool:
        return any(" lacks " in problem for problem in self._verdict())

    def _still_running(self) -> None:
        for name, part in self.site.parts.items():
            self._must(part.process.poll() is None, f"{name} ended by itself")
        acknowledged, revocations = self._insist("acknowledged"), self._insist("revocations")
        jobs = self._look()["jobs"].values()
        self.outcome.runs = dict(Counter(state for state, _attempts, _error in jobs))
        for agent in sorted(self.site.agents):
            self.site.kill(agent)
            self._note_disk(agent)
        lines = self._lines()
        self.outcome.problems += unproven(acknowledged, lines)
        self.outcome.problems += judged_receipts(revocations, self.site.anchors, lines)

    def _must(self, held: bool, problem: str) -> None:
        if not held:
            self.outcome.problems.append(problem)

    # what came of it

    def _lines(self) -> list[Line]:
        paths = [history_of(Path(folder)) for folder in self.site.profiles.values()]
        found = [*self.history.lines, *self._letters]
        found += merged(path for path in paths if path.exists())
        for agent in sorted(self.site.agents):
            found += agent_lines(agent, self.site.folder / f"{agent}.log")
        return found

    def _verdict(self) -> list[str]:
        return verdict(self._lines(), self._cast, limit=self.limit, handles=self.site.handles())

    def _judge(self) -> None:
        lines = self._lines()
        self.outcome.problems += self._verdict()
        told = Counter(line["what"] for line in lines)
        for what in ("published", "accepted", "delivered", "aside"):
            setattr(self.outcome, what, told[what])
        self.outcome.latest = latest_delivery(lines)
        self.outcome.converged = converged_after(lines)
        self._must(self._has("late-0", "subscribed"), "who was appointed never got anything")
