"""One size of `bench_revocation`: so many agents, so many revocations, in a process of its own.

Prints progress on standard error and one JSON object on standard output.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.agent_host import ANSWERS, asked
from benchmarks.fleet import Clients, Fleet, now
from benchmarks.members import enrol_all, organise
from brokers.adapters.brokers_file import BrokersFile
from brokers.adapters.stomp import StompTransport
from brokers.ports import Outgoing

LEASE = 5.0
LIMIT = 30.0
TOGETHER = 20
PAUSE = 1.0


def main(argv: Sequence[str]) -> None:
    """Measure, and print what was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--agents", type=int, required=True)
    parser.add_argument("--revocations", type=int, required=True)
    parser.add_argument("--at-rest", type=int, default=0)
    parser.add_argument("--plain", type=int, default=10)
    parser.add_argument("--embedded", action="store_true")
    options = parser.parse_args(argv)
    with (
        tempfile.TemporaryDirectory(prefix="portcullis-fleet-") as name,
        Fleet(Path(name), options.agents, embedded=options.embedded) as fleet,
    ):
        try:
            found = Measurement(fleet, options).run()
        except BaseException:
            for part, text in fleet.logs():
                _say(f"--- {part}\n{text[-3000:]}")
            raise
    print(json.dumps(found))


class Measurement:
    """What is done with a fleet.

    Args:
        fleet: begun, without agents.
        options: of the command line.
    """

    def __init__(self, fleet: Fleet, options: argparse.Namespace) -> None:
        self._fleet, self._options = fleet, options
        self._observed = fleet.observed

    def run(self) -> dict[str, Any]:
        """Everything, in its order."""
        start = time.monotonic()
        victims = 1 + self._options.at_rest + self._options.revocations
        clients = Clients(self._fleet, self._organise(victims))
        clients.start()
        try:
            self._fleet.control()
            self._fleet.agents(LEASE)
            self._wait_current()
            _say(f"{self._options.agents} agents hold the policy, {_since(start)}")
            warm = self._one(rest=True)
            size = self._notice_bytes()
            plain = [self._plain(size) for _ in range(self._options.plain)]
            for host in self._fleet.hosts:
                host.ask("silence")
                host.wait("silent")
            _say(f"plain messages measured, {_since(start)}")
            rest = [self._one(rest=True) for _ in range(self._options.at_rest)]
            _say(f"revocations at rest measured, {_since(start)}")
            busy = [self._one(rest=False) for _ in range(self._options.revocations)]
            _say(f"revocations one after the other measured, {_since(start)}")
            return {
                "agents": self._options.agents,
                "embedded": self._options.embedded,
                "notice_bytes": size,
                "warm_up": warm,
                "plain": plain,
                "at_rest": rest,
                "one_after_another": busy,
                "memory": self._fleet.memory(),
                "load": os.getloadavg(),
                "seconds": time.monotonic() - start,
            }
        finally:
            clients.close()

    # -- the organisation ----------------------------------------------------------------------

    def _organise(self, victims: int) -> list[Any]:
        """With one publisher more than is revoked; gives the clients' ends."""
        self._domain = organise(
            self._fleet.keys(), readers=len(self._fleet.names), publishers=victims + 1
        )
        self._victims = iter([f"meter-{number}" for number in range(victims)])
        return enrol_all(self._domain)

    def _wait_current(self) -> None:
        """Until every agent has what was compiled last, and a lease."""
        from django.utils import timezone

        from adminapp.distribution.models import Compilation, Recipient

        end = time.monotonic() + 600
        while True:
            self._domain.refresh_from_db()
            done = Compilation.objects.filter(
                domain=self._domain, revision__gte=self._domain.revision
            )
            held = Recipient.objects.filter(
                domain=self._domain, audience__startswith="agent:",
                revision=self._domain.revision, leased_until__gt=timezone.now(),
            )  # fmt: skip
            if done.exists() and held.count() == len(self._fleet.names):
                return
            if time.monotonic() > end:
                raise TimeoutError(f"{held.count()} agents hold the policy after ten minutes")
            time.sleep(0.2)

    # -- one revocation ------------------------------------------------------------------------

    def _one(self, *, rest: bool) -> dict[str, Any]:
        """Revoke somebody; seconds from T0 until each agent denied it, by its own record.

        Args:
            rest: begin only when everything that came before is over.
        """
        from adminapp.distribution import services
        from adminapp.identity.models import Principal

        principal = Principal.objects.select_related("domain").get(name=next(self._victims))
        asked_at = now()
        row = services.revoke_principal(actor=None, principal=principal, reason="a measurement")
        # INVARIANT: T0 is the commit, and nobody can have heard of it before.
        t0 = now()
        count = len(self._fleet.names)

        reached = self._observed.wait(
            lambda: self._observed.count(principal.handle, row.revision) == count, 2 * LIMIT
        )
        found = self._observed.enforced(principal.handle, row.revision)
        by_notice = self._observed.denied.get(principal.handle, {})
        told = {
            "asked": t0 - asked_at,
            "seconds": sorted(at - t0 for at in found.values()),
            "missing": count - len(found),
            "by_notice": sum(by_notice.get(agent) == at for agent, at in found.items()),
        }
        if not reached:
            _say(f"{told['missing']} agents did not deny {principal.name}")
        told["known"] = self._wait_known(row, t0)
        if rest:
            told["complete"] = self._wait_complete(row, t0)
        else:
            time.sleep(PAUSE)
        return told

    def _wait_known(self, row: Any, t0: float) -> float:
        """Seconds until the control plane has every agent's signed word."""
        from adminapp.distribution.models import Notice

        end = time.monotonic() + 120
        open_notices = Notice.objects.filter(revocation=row).exclude(state=Notice.State.APPLIED)
        while open_notices.exists() and time.monotonic() < end:
            time.sleep(0.1)
        last = Notice.objects.filter(revocation=row).order_by("-acknowledged_at").first()
        return last.acknowledged_at.timestamp() - t0 if last and last.acknowledged_at else 0.0

    def _wait_complete(self, row: Any, t0: float) -> float:
        """Seconds until the receipt is signed; then nothing is left to do."""
        from adminapp.distribution.models import Compilation

        end = time.monotonic() + 600
        while time.monotonic() < end:
            row.refresh_from_db()
            if row.completed is not None:
                self._wait_current()
                return row.completed.timestamp() - t0
            time.sleep(0.2)
        compiled = Compilation.objects.get(domain=self._domain).revision
        raise TimeoutError(f"{row} is {row.state} after ten minutes, compiled to {compiled}")

    def _notice_bytes(self) -> int:
        from adminapp.distribution.models import Notice

        return len(bytes(Notice.objects.exclude(message=None)[0].message))

    # -- the baseline --------------------------------------------------------------------------

    def _plain(self, size: int) -> dict[str, Any]:
        """Send a plain message to each and wait for each answer; seconds until each arrived."""
        if not hasattr(self, "_sender"):
            for host in self._fleet.hosts:
                host.ask("echo")
                host.wait("echoing")
            brokers = BrokersFile.load(self._fleet.brokers_files["control"])
            self._sender = StompTransport(brokers.control_broker(), name="plain")
            self._sender.connect(30)
            self._sender.subscribe(ANSWERS, prefetch=1000)
        self._observed.echoes.clear()
        body = secrets.token_bytes(size)
        start = now()
        for first in range(0, len(self._fleet.names), TOGETHER):
            names = self._fleet.names[first : first + TOGETHER]
            self._sender.send_many([Outgoing(asked(name), body) for name in names])
        answered, end = 0, time.monotonic() + 60
        while answered < len(self._fleet.names) and time.monotonic() < end:
            messages = self._sender.receive_many(200, 1)
            self._sender.ack_many(messages)
            answered += len(messages)
        known = now() - start
        self._observed.wait(lambda: len(self._observed.echoes) == len(self._fleet.names), 30)
        return {
            "seconds": sorted(at - start for at in self._observed.echoes.values()),
            "known": known,
        }


def _since(start: float) -> str:
    return f"{time.monotonic() - start:.0f} s"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
