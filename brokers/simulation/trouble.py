"""Trouble from a seed: nodes that fall at some write, brokers that go, lines that are cut."""

from __future__ import annotations

from dataclasses import dataclass

from brokers.simulation.chance import Chance
from brokers.simulation.world import CONTROL, World

_GRACE = 2.0
_DEEPEST = 8


@dataclass(frozen=True)
class Trouble:
    """How much of it comes over a simulation.

    Args:
        agents: times that some agent falls.
        clients: times that some client falls.
        brokers: times that some broker falls.
        partitions: times that about half of the nodes lose one broker.
        seconds: how long trouble goes on from now.
        longest: most seconds that something stays away.
    """

    agents: int = 0
    clients: int = 0
    brokers: int = 0
    partitions: int = 0
    seconds: float = 30.0
    longest: float = 20.0


def arrange(world: World, trouble: Trouble) -> float:
    """Let trouble come over a world from now on.

    Every node that falls starts again, every broker comes back, every cut heals.

    Args:
        world: started.
        trouble: how much.

    Returns:
        Virtual seconds from now until all of it is over.
    """
    chance = world.chance.child(f"trouble/{world.timeline.now:.6f}")
    for names, times in ((world.agents, trouble.agents), (world.clients, trouble.clients)):
        for _ in range(times):
            _fall(world, chance.pick(sorted(names)), chance, trouble)
    for _ in range(trouble.brokers):
        _lose_broker(world, chance, trouble)
    for _ in range(trouble.partitions):
        _partition(world, chance, trouble)
    return trouble.seconds + _GRACE + trouble.longest


def _fall(world: World, name: str, chance: Chance, trouble: Trouble) -> None:
    node, depth = world.nodes[name], chance.below(_DEEPEST)
    moment, away = _when(chance, trouble)
    world.timeline.after(moment, lambda: node.doom(depth))
    # Who had nothing to write by then falls while idle.
    world.timeline.after(moment + _GRACE, node.crash)
    world.timeline.after(moment + _GRACE + away, node.start)


def _lose_broker(world: World, chance: Chance, trouble: Trouble) -> None:
    name = chance.pick(sorted(world.brokers))
    moment, away = _when(chance, trouble)
    world.timeline.after(moment, lambda: world.crash_broker(name))
    world.timeline.after(moment + away, lambda: world.restart_broker(name))


def _partition(world: World, chance: Chance, trouble: Trouble) -> None:
    broker = chance.pick([CONTROL, *world.organisation.overlays])
    names = [name for name in sorted(world.nodes) if chance.happens(0.5)]
    moment, away = _when(chance, trouble)

    def cut() -> None:
        world.history.note(broker, "cut off", nodes=names)
        for name in names:
            world.nodes[name].cut(broker)

    def heal() -> None:
        world.history.note(broker, "healed", nodes=names)
        for name in names:
            world.nodes[name].heal(broker)

    world.timeline.after(moment, cut)
    world.timeline.after(moment + away, heal)


def _when(chance: Chance, trouble: Trouble) -> tuple[float, float]:
    moment = chance.between(0.0, trouble.seconds)
    return moment, chance.between(0.1, trouble.longest)
