"""One rotation of a key that many agents hold, in a process of its own.

Everything but the transport is the product's own: the authority in a process of its own wraps and
signs, the control plane compiles, sends, takes signed acknowledgements and goes from stage to
stage; each agent verifies, opens and applies by the engine. Messages are handed over in memory,
one after the other, so that seconds are those of one core. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from benchmarks.fleet import Fleet
from benchmarks.members import KEY, organise
from brokers.control.lease import READS
from brokers.ports import Outgoing
from policyengine.bundles.addresses import audience, control_queue
from policyengine.primitives.canonical import b64
from policyengine.primitives.hpke import seal_to
from policyengine.primitives.rand import SYSTEM_RANDOM
from policyengine.primitives.signatures import generate_signing_key, sign

CONTEXT = b"portcullis/benchmark/seal/v1"
WRAPPED = 32
LEASE = 3600


def main(argv: Sequence[str]) -> None:
    """Measure, and print what was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--agents", type=int, required=True)
    parser.add_argument("--embedded", action="store_true")
    options = parser.parse_args(argv)
    with (
        tempfile.TemporaryDirectory(prefix="portcullis-rotation-") as name,
        Fleet(Path(name), options.agents, embedded=options.embedded, connected=False) as fleet,
    ):
        print(json.dumps(Rotation(fleet).run()))


class Rotation:
    """A domain with many agents that are handed their messages.

    Args:
        fleet: begun, without a broker.
    """

    def __init__(self, fleet: Fleet) -> None:
        from adminapp.core.authority import get_authority
        from tests.support.audiences import Audience

        anchors = get_authority().anchors()
        self._agents = {
            name: Audience(audience("agent", name), anchors, reads=READS) for name in fleet.names
        }
        self._fleet = fleet
        self._queues: dict[str, list[bytes]] = defaultdict(list)
        self._bytes = Counter[str]()
        self._spent = Counter[str]()
        self._done = Counter[str]()

    def run(self) -> dict[str, Any]:
        """Organise, bring everybody up to date, rotate."""
        from adminapp.distribution import rollouts, waiting
        from adminapp.trustgroups.services import stage_epoch

        self._count_wraps()
        keys = {
            name: {"sealing_key": b64(each.sealing.public), "verify_key": b64(each.signing.public)}
            for name, each in self._agents.items()
        }
        # Handed over one after the other, nobody may count as silent meanwhile.
        waiting.PATIENCE = timedelta(hours=1)
        domain = organise(keys, readers=0, publishers=0, lease=LEASE)
        self._settle()
        first = self._taken()
        self._lease_all()
        leases = self._taken()
        start = time.perf_counter()
        stage_epoch(actor=None, domain=domain, group_ref=f"key:{KEY}", reason="a measurement")
        rollouts.request_advance(domain)
        stages = self._roll(domain)
        whole = time.perf_counter() - start
        return {
            "agents": len(self._agents),
            "first": first,
            "leases": leases,
            "stages": stages,
            "seconds": whole,
            "sealing": self._sealing_alone(stages),
            "memory": self._fleet.memory_here(),
        }

    # -- stages --------------------------------------------------------------------------------

    def _roll(self, domain: Any) -> list[dict[str, Any]]:
        """Work until the rollout is complete; what each stage took."""
        from adminapp.distribution.models import Rollout

        found: list[dict[str, Any]] = []
        stage, began = "recomputing", time.perf_counter()
        while True:
            moved = self._round()
            row = Rollout.objects.filter(domain=domain).order_by("-pk").first()
            state = str(row.state) if row is not None else stage
            if state != stage:
                # What was measured last led here: the first of it belongs to the stage before.
                found.append(
                    {"stage": stage, "whole": time.perf_counter() - began, **self._taken()}
                )
                stage, began = state, time.perf_counter()
            if stage == "complete":
                self._check(domain)
                return found
            if not moved:
                raise RuntimeError(f"the rollout stands still while {stage}")

    def _check(self, domain: Any) -> None:
        """Every agent has the new key, and the old one no longer."""
        for each in self._agents.values():
            held = {
                (wrap.epoch, wrap.state)
                for wrap in each.agent(domain.name).wraps
                if wrap.group == f"key:{KEY}"
            }
            if held != {(2, "current")}:
                raise AssertionError(f"{each.address} holds {sorted(held)}")

    # -- work, by hand -------------------------------------------------------------------------

    def _settle(self) -> None:
        while self._round():
            pass

    def _round(self) -> int:
        return self._work() + self._deliver()

    def _work(self) -> int:
        """Everything that is due in the outbox, timed by topic."""
        from django.utils import timezone

        from adminapp.outbox.models import OutboxRow
        from tasks import handlers

        due = OutboxRow.objects.filter(state="pending", available_at__lte=timezone.now())
        rows = list(due.order_by("id").values_list("key", "topic"))
        for key, topic in rows:
            with self._timed(topic):
                handlers.work(key, sender=lambda: self)
        return len(rows)

    def _deliver(self) -> int:
        """Hand over what stands in the queues and take what comes back."""
        moved, said = 0, []
        for each in self._agents.values():
            queue = control_queue(each.address)
            waiting = self._queues.pop(queue, [])
            moved += len(waiting)
            for body in waiting:
                with self._timed("agents"):
                    said += each.take(body)
        self._answered("acknowledgements", said)
        return moved

    def _lease_all(self) -> None:
        asked = [each.lease_request() for each in self._agents.values()]
        for address, body in self._answered("leases", asked):
            self._agents[address.rpartition(".")[2]].take(body)

    def _answered(self, what: str, requests: list[bytes]) -> list[tuple[str, bytes]]:
        """What comes back, each with its queue; as many at once as `serve_agents` takes."""
        from adminapp.distribution import services
        from adminapp.distribution.batches import chunked
        from tasks.management.commands.serve_agents import BATCH

        found: list[tuple[str, bytes]] = []
        for some in chunked(requests, BATCH):
            with self._timed(what):
                for group in services.answer_requests(some):
                    found += [answer for _, answers in group for answer in answers]
            self._done[what] += len(some) - 1
        return found

    def send(self, queue: str, body: bytes, **_: Any) -> None:
        """The transport's part."""
        self._queues[queue].append(body)
        self._bytes["sent"] += len(body)

    def send_many(self, messages: Iterable[Outgoing], **_: Any) -> None:
        """The transport's part, of many."""
        for each in messages:
            self.send(each.queue, each.body)

    # -- counting ------------------------------------------------------------------------------

    def _timed(self, what: str) -> _Timed:
        return _Timed(self._spent, self._done, what)

    def _count_wraps(self) -> None:
        from adminapp.core.authority import get_authority

        client = get_authority()
        wrap = client.wrap_for

        def counted(*arguments: Any, **named: Any) -> bytes:
            with self._timed("wraps"):
                return wrap(*arguments, **named)

        client.wrap_for = counted  # type: ignore[method-assign]

    def _taken(self) -> dict[str, Any]:
        found = {
            "seconds": dict(self._spent),
            "count": dict(self._done),
            "bytes": self._bytes["sent"],
        }
        for counter in (self._spent, self._done, self._bytes):
            counter.clear()
        return found

    def _sealing_alone(self, stages: list[dict[str, Any]]) -> dict[str, float]:
        """The cryptography that a rotation cannot do without, in this process and nothing else."""
        key, fresh = generate_signing_key(), SYSTEM_RANDOM.token(WRAPPED)
        recipients = [each.sealing.public for each in self._agents.values()]
        start = time.perf_counter()
        for public in recipients:
            seal_to(public, fresh, info=CONTEXT)
        wraps = time.perf_counter() - start
        messages = sum(stage["count"].get("push", 0) for stage in stages)
        size = sum(stage["bytes"] for stage in stages) // max(messages, 1)
        body = SYSTEM_RANDOM.token(size)
        start = time.perf_counter()
        for number in range(messages):
            sign(key, CONTEXT, body)
            seal_to(recipients[number % len(recipients)], body, info=CONTEXT)
        return {"wraps": wraps, "bundles": time.perf_counter() - start, "size": float(size)}


class _Timed:
    """Adds what a block takes."""

    def __init__(self, spent: Counter[str], done: Counter[str], what: str) -> None:
        self._spent, self._done, self._what = spent, done, what

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._spent[self._what] += time.perf_counter() - self._start  # type: ignore[assignment]
        self._done[self._what] += 1


if __name__ == "__main__":
    main(sys.argv[1:])
