"""A control plane whose processes die at named points, and are started again.

The work is that of the real handlers over the database. What a process does to it, and to the
broker, are the points: every statement that writes, and every message. A death rolls back what
was not committed, as the database does when a connection ends, and takes all memory with it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db import connection
from django.utils import timezone

from adminapp.distribution.models import Bundle, Notice, RecomputeJob
from adminapp.outbox import services as outbox
from adminapp.policies import remembered
from policyengine.bundles import messages
from policyengine.primitives.canonical import loads
from tasks import handlers
from tests.support.audiences import Plane

_WRITES = {"INSERT": "INTO", "UPDATE": "UPDATE", "DELETE": "FROM"}
_MOST_DEATHS = 400


class Died(BaseException):
    """The process is dead: nobody catches it but who starts it again."""


class DyingPlane(Plane):
    """A plane that dies the first time that it passes a point, where it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.points: list[str] = []
        self.died: list[str] = []
        self.problems: list[str] = []
        self.dies: Callable[[int, str], bool] = lambda number, name: False
        self._doing = ""

    # points

    def point(self, what: str) -> None:
        """Pass a point of what is being done, or die there."""
        name = f"{self._doing}: {what}"
        if name in self.points:
            return
        self.points.append(name)
        if self.dies(len(self.points) - 1, name) and len(self.died) < _MOST_DEATHS:
            self.died.append(name)
            raise Died(name)

    def attempt(self, doing: str, work: Callable[[], Any]) -> Any:
        """Do some work as a process of its own; None where it died of it."""
        self._doing = doing
        try:
            with connection.execute_wrapper(self._statement):
                return work()
        except Died:
            self._start_again()
            return None
        finally:
            self._doing = ""

    def _statement(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        words = sql.split(maxsplit=5)
        before = _WRITES.get(words[0])
        if before is None:
            return execute(sql, params, many, context)
        table = words[words.index(before) + 1].replace('"', "")
        what = f"{words[0].lower()} {table}"
        self.point(what)
        result = execute(sql, params, many, context)
        self.point(f"{what}, done")
        return result

    def _start_again(self) -> None:
        """What was acknowledged is still so; rows of the dead are taken by others in time."""
        remembered.forget()
        self.look()
        outbox.sweep(older_than=timedelta(seconds=-1))
        RecomputeJob.objects.update(heartbeat=timezone.now() - timedelta(hours=1))

    # what must hold at every moment

    acknowledged: frozenset[tuple[str, int]] = frozenset()

    def look(self) -> None:
        """Nothing that was taken as acknowledged may be forgotten."""
        bundles = Bundle.objects.filter(state=Bundle.State.APPLIED).values_list("pk", flat=True)
        notices = Notice.objects.filter(state=Notice.State.APPLIED).values_list("pk", flat=True)
        now = frozenset([("bundle", pk) for pk in bundles] + [("notice", pk) for pk in notices])
        lost = self.acknowledged - now
        if lost:
            self.problems.append(f"no more acknowledged after {self.died[-1:]}: {sorted(lost)}")
        self.acknowledged = now

    # what processes do

    def send(self, queue: str, body: bytes, **more: Any) -> None:
        """The transport's part."""
        self.point("send")
        super().send(queue, body, **more)
        self.point("the broker has it")

    def work(self) -> int:
        """Do everything that is due in the outbox; returns how many rows were tried."""
        count = 0
        while rows := self._due():
            for key, topic in rows:
                count += 1
                if topic == "recompute":
                    self.attempt(topic, lambda key=key: self._recompute(key))  # type: ignore[misc]
                else:
                    self.attempt(topic, lambda key=key: self._handle(key))  # type: ignore[misc]
        return count

    def _handle(self, key: str) -> None:
        handlers.work(key, sender=lambda: self)

    def receive(self, *requests: bytes) -> None:
        """What comes is taken off its queue only once it was dealt with; together come leases."""
        decoded = messages.decode_request(requests[0])
        doing = "lease"
        if decoded.kind == "ack":
            said = messages.Acknowledgement.from_json(loads(decoded.body))
            doing = f"{said.what} {said.status}"
        died = len(self.died)
        self.attempt(doing, lambda: super(DyingPlane, self).receive(*requests))
        while len(self.died) > died:
            died = len(self.died)
            self.attempt(doing, lambda: super(DyingPlane, self).receive(*requests))
