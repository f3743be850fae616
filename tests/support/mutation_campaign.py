"""Changed messages by the thousand: none may be believed, change anything, or break anything."""

from __future__ import annotations

import gc
import json
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from brokers.adapters.control_link import ControlLink
from brokers.simulation.disk import MemoryBundles, MemoryState
from policyengine.bundles import (
    REQUESTS_QUEUE,
    Floors,
    OpenedBundle,
    Root,
    SignedRoot,
    TrustedState,
    control_queue,
    decode_request,
    encode_control,
)
from policyengine.errors import RejectedError
from tests.support import bundle_samples as samples
from tests.support.dice import Dice
from tests.support.memory_broker import MemoryBroker, MemoryTransport
from tests.support.mutation_bundles import (
    DELTA,
    DELTA_LATER,
    DOMAIN,
    HELD,
    IDENTITY,
    LARGE,
    LATER,
    NOW,
    ROOT,
    STATE,
    WHOLE,
    bundle_target,
    chunk_target,
)
from tests.support.mutation_targets import lease_target, notice_target, targets
from tests.support.mutations import Target, mutate

_WARM = 600
_MOST_PROBLEMS = 20
_MOST_GROWN = 16 * 1024  # KiB


class _Clock:
    def wall(self) -> float:
        return NOW

    def boot(self) -> float:
        return 1000.0


class _Applier:
    """Notes whatever is put into force."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def prepare(self, opened: OpenedBundle, state: TrustedState) -> int:
        return opened.header.revision

    def commit(self, domain: str, prepared: object) -> None:
        self.done.append(f"revision {prepared} came into force")

    def deny(self, domain: str, handles: frozenset[str]) -> None:
        self.done.append("somebody was denied")

    def hold(self, domain: str, floors: Floors) -> None:
        self.done.append("somebody was held back")

    def settled(self) -> Callable[[], bool]:
        return lambda: True


class _Roots:
    """Root 1 and no other."""

    def load(self) -> Root:
        return ROOT

    def pending(self) -> tuple[str, ...]:
        return ()

    def save(self, roots: Sequence[SignedRoot]) -> None:
        raise AssertionError("no root was sent")

    def settle(self) -> None:
        raise AssertionError("no root was sent")


class Agent:
    """Agent alpha's control side with a revision in force, in memory."""

    def __init__(self) -> None:
        self.writes: list[str] = []
        self._broker = MemoryBroker()
        self.applier = _Applier()
        bundles = MemoryBundles(self.writes.append)
        states = MemoryState(samples.ALPHA, self.writes.append)
        bundles.save(DOMAIN, HELD.message)
        states.save(STATE)
        self.link = ControlLink(
            transport=MemoryTransport(self._broker),
            identity=IDENTITY,
            signing_key=samples.signing_key("alpha"),
            bundles=bundles,
            state_file=states,
            clock=_Clock(),
            applier=self.applier,
            roots=_Roots(),
        )
        self.link.restore()
        self.link.listen()
        self.link.step(0)
        (asked,) = self._said()
        self.nonce = str(asked["nonce"])
        self.settle()

    def settle(self) -> None:
        """From here on nothing may change."""
        self._said()
        self.writes.clear()
        self.applier.done.clear()
        self._view = self.link.view

    def judge(self, kind: str, wire: bytes) -> str:
        """Give it a message; returns what it told, raises what it refused it with."""
        domain = "" if kind == "lease" else DOMAIN
        self._broker.put(control_queue(samples.ALPHA), encode_control(kind, domain, wire))
        self.link.rejections.clear()
        self.link.step(0)
        told = [entry["status"] for entry in self._said() if "status" in entry]
        if self.link.rejections and set(told) <= {"rejected"}:
            raise RejectedError(self.link.rejections[-1].reason, "refused")
        return f"told {told}"

    def changed(self) -> str:
        """What is no more as it was the last time."""
        found = [*self.writes, *self.applier.done]
        if self.link.view is not self._view:
            found.append("what it trusts is another")
        if found:
            self.settle()
        return ", ".join(found)

    def _said(self) -> list[dict[str, Any]]:
        found = [
            json.loads(decode_request(each).body) for each in self._broker.bodies(REQUESTS_QUEUE)
        ]
        self._broker.queues.pop(REQUESTS_QUEUE, None)
        return found


def agent_targets() -> Iterator[Target]:
    """The same messages at the agent's own code, from its queue to its disk."""
    agent, waiting = Agent(), Agent()
    waiting.judge("bundle", LARGE.message)
    waiting.settle()
    for name, bundles in (
        ("bundle", (WHOLE, LATER)),
        ("delta", (DELTA, DELTA_LATER)),
        ("manifest", (LARGE,)),
    ):
        yield _at(agent, "bundle", bundle_target(name, partial(agent.judge, "bundle"), bundles))
    yield _at(waiting, "chunk", chunk_target())
    yield _at(agent, "notice", notice_target())
    yield _at(agent, "lease", lease_target(agent.nonce))


def _at(agent: Agent, kind: str, target: Target) -> Target:
    return replace(
        target,
        name=f"{target.name} at the agent",
        judge=partial(agent.judge, kind),
        changed=agent.changed,
    )


@dataclass
class Outcome:
    """What came of it.

    Args:
        seed: gives the same messages again.
        cases: changed messages that were judged.
        written: changes that gave what a signer wrote, not counted.
        kinds: kind of message -> how many.
        refused: the word, or the exception -> how many.
        grown: KiB of memory at the end beyond those after the first few hundred.
        seconds: how long it took.
        problems: what must not be.
    """

    seed: str
    cases: int = 0
    written: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    grown: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)


def campaign(seed: str, count: int) -> Outcome:
    """Judge so many changed messages; each is made from the seed and its number alone."""
    outcome = Outcome(seed)
    aims = (*targets(), *agent_targets())
    started, before, number = time.monotonic(), 0, 0
    with _quiet():
        while outcome.cases < count and len(outcome.problems) < _MOST_PROBLEMS:
            if number == _WARM:
                before = _memory()
            target = aims[number % len(aims)]
            _one(outcome, target, f"{seed}/{number}")
            number += 1
    outcome.grown = max(0, _memory() - before) if before else 0
    if outcome.grown > _MOST_GROWN:
        outcome.problems.append(f"memory grew by {outcome.grown} KiB")
    outcome.seconds = round(time.monotonic() - started, 1)
    return outcome


def _one(outcome: Outcome, target: Target, seed: str) -> None:
    mutation = mutate(target, Dice(seed))
    if mutation.written:
        outcome.written += 1
        return
    found = ""
    try:
        believed = target.judge(mutation.wire)
    except target.refusals as error:
        outcome.refused[getattr(error, "reason", type(error).__name__)] += 1
    except Exception as error:  # noqa: BLE001 - whatever it is, it must not be
        found = f"broke with {error!r}"
    else:
        if target.honest(believed):
            outcome.written += 1
            return
        found = f"was believed: {believed!r:.200}"
    found = ", ".join(filter(None, (found, target.changed())))
    outcome.cases += 1
    outcome.kinds[target.name] += 1
    if found:
        outcome.problems.append(f"{target.name} {seed} ({mutation.how}): {found}")


@contextmanager
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def _memory() -> int:
    """KiB that this process has in memory."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGESIZE") // 1024
