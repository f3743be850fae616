"""A node of a simulation: it runs in turns, and may crash at any write to disk or network."""

from __future__ import annotations

from dataclasses import dataclass

from brokers.simulation.chance import Chance
from brokers.simulation.history import History
from brokers.simulation.network import Line, MemoryBroker, Weather
from brokers.simulation.timeline import Timeline, VirtualClock

_TURN = 0.0005


class Crashed(BaseException):
    """The node is dead from this point on, as after `kill -9`. Only a node itself catches it."""


@dataclass(frozen=True)
class Surroundings:
    """What all nodes of a simulation share.

    Args:
        timeline: virtual time.
        history: what happens is noted here.
        brokers: the control broker under `control`, the others by overlay.
        weather: how the network behaves.
        chance: nodes draw streams of their own from it.
    """

    timeline: Timeline
    history: History
    brokers: dict[str, MemoryBroker]
    weather: Weather
    chance: Chance


class Node:
    """Something that runs.

    Args:
        name: unique in the simulation.
        around: see `Surroundings`.
        tick: seconds between two turns when nothing arrives.
        clock_error: seconds by which its wall clock is wrong.
    """

    def __init__(
        self, name: str, around: Surroundings, *, tick: float, clock_error: float = 0.0
    ) -> None:
        self._name = name
        self.around = around
        self.clock = VirtualClock(around.timeline, clock_error)
        self.chance = around.chance.child(name)
        self.alive = False
        self.crashes = 0
        self.lines: list[Line] = []
        self._tick = tick
        self._life = 0
        self._scheduled = False
        self._busy_until = 0.0
        self._doom: int | None = None
        self._cut: set[str] = set()

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    # what the kinds of nodes do

    def boot(self) -> None:
        """Begin to work, with what the disk kept."""
        raise NotImplementedError

    def work(self) -> None:
        """One turn."""
        raise NotImplementedError

    # life

    def start(self) -> None:
        """Start, or start again."""
        if self.alive:
            return
        self.alive = True
        self._life += 1
        self._scheduled = False
        self._busy_until = self.around.timeline.now
        try:
            self.boot()
        except Crashed:
            self.crash()
            return
        self._keep_ticking(self._life)
        self.wake()

    def _keep_ticking(self, life: int) -> None:
        if self.alive and self._life == life:
            self.wake()
            self.around.timeline.after(self._tick, lambda: self._keep_ticking(life))

    def wake(self) -> None:
        """Take a turn soon."""
        if self.alive and not self._scheduled:
            self._scheduled = True
            life = self._life
            moment = max(self.around.timeline.now + _TURN, self._busy_until)
            self.around.timeline.at(moment, lambda: self._turn(life))

    def _turn(self, life: int) -> None:
        if not self.alive or self._life != life:
            return
        self._scheduled = False
        try:
            self.work()
        except Crashed:
            self.crash()

    def busy(self, seconds: float) -> None:
        """Nothing else happens here for so long."""
        self._busy_until = max(self._busy_until, self.around.timeline.now) + seconds

    def crash(self) -> None:
        """Fall, at this moment."""
        if not self.alive:
            return
        self.alive = False
        self._doom = None
        self.crashes += 1
        lines, self.lines = self.lines, []
        for line in lines:
            line.close()
        self.around.history.note(self.name, "crashed")

    def doom(self, writes: int) -> None:
        """Fall at a write to disk or network, after so many of them."""
        if self.alive:
            self._doom = writes

    def guard(self, where: str) -> None:
        """A point at which the node may crash."""
        if not self.alive:
            raise Crashed
        if self._doom is None:
            return
        self._doom -= 1
        if self._doom < 0:
            self.around.history.note(self.name, "falls", where=where)
            raise Crashed

    # connections

    def connect(self, broker: str) -> Line:
        """A line to a broker, not started."""
        around = self.around
        line = Line(
            self,
            around.brokers[broker],
            around.timeline,
            around.weather,
            self.chance.child(f"{broker}/{self._life}"),
        )
        line.cut = broker in self._cut
        self.lines.append(line)
        return line

    def cut(self, broker: str) -> None:
        """Nothing passes between the node and a broker any more."""
        self._cut.add(broker)
        for line in self.lines:
            if line.broker.name == broker:
                line.cut = True
                line.drop()

    def heal(self, broker: str) -> None:
        """Connections to a broker are possible again."""
        self._cut.discard(broker)
        for line in self.lines:
            if line.broker.name == broker:
                line.cut = False
