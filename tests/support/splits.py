"""The control plane cut off from its own servers at moments drawn from a seed.

Between all of its processes and PostgreSQL, Redis and ActiveMQ stands a proxy each: one way, the
other, both ways, or half-open. Agents and clients reach their broker all the time, so that leases
end only where nobody answers. It is played and judged as `faults.py` does it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from brokers.simulation.chance import Chance
from tests.support.cut_plan import KINDS
from tests.support.fault_domain import DOMAIN, LEASE_SECONDS
from tests.support.fault_site import Address
from tests.support.faults import Faults, Outcome
from tests.support.tcp_proxy import LOOPBACK, TcpProxy

LATE = 5.0
"""Seconds from an agent's decision to the line in a history, on a busy machine."""
SERVERS = ("postgresql", "redis", "activemq")


@dataclass(frozen=True)
class Split:
    """A partition.

    Args:
        server: who is cut off from the control plane.
        kind: one of `KINDS`, as the control plane sees it.
        pause: seconds before it.
        seconds: how long it lasts.
        reset: whether its connections are reset afterwards, and what they held is lost.
    """

    server: str
    kind: str
    pause: float
    seconds: float
    reset: bool


def lanes(seed: str, count: int) -> list[list[Split]]:
    """So many partitions: those from one server come one by one, all kinds in turn."""
    found: dict[str, list[Split]] = {name: [] for name in SERVERS}
    for number in range(count):
        chance = Chance(f"{seed}/splits/{number}")
        # Three and four: every server has every kind after twelve.
        server, kind = SERVERS[number % len(SERVERS)], KINDS[number % len(KINDS)]
        found[server].append(
            Split(
                server,
                kind,
                pause=chance.between(1.0, 5.0),
                seconds=chance.between(2.0, 12.0),
                # What a half-open connection carried is lost. STOMP's heart-beats find that out;
                # of the others it is learned by a reset, as a host sends it that knows nothing.
                reset=chance.happens(0.5) or (kind == "half-open" and server != "activemq"),
            )
        )
    return [lane for lane in found.values() if lane]


class Splits(Faults):
    """One play on a site of its own.

    Args:
        folder: for all files.
        seed: decides what is cut off, how and when, and what is published.
        count: how many partitions.
    """

    limit = LEASE_SECONDS + LATE
    pauses = (0.5, 3.0)

    def __init__(self, folder: Path, seed: str, *, count: int = 10) -> None:
        self._proxies: dict[str, TcpProxy] = {}
        self._count = count
        super().__init__(folder, seed, each=1, through=self._through)

    def _through(self, who: str, part: str, address: Address) -> Address:
        if who != "control":
            return address
        self._proxies[part] = TcpProxy(address, seed=f"{self._seed}/{part}")
        return LOOPBACK, self._proxies[part].port

    def run(self) -> Outcome:
        """Play, and judge.

        Raises:
            AssertionError: something did not start.
            TimeoutError: something did not go on.
        """
        try:
            return super().run()
        finally:
            for proxy in self._proxies.values():
                proxy.close()

    def _changes(self) -> list[Callable[[], object]]:
        return [
            partial(self._revoke, "end-principal", "meter-2", "no"),
            partial(self._revoke, "end-appointment", "guard-0"),
            partial(self._other, "appoint", "late-0"),
            partial(self._other, "rotate", DOMAIN),
        ]

    def _trouble(self) -> list[Callable[[], None]]:
        return [partial(self._cut, lane) for lane in lanes(self._seed, self._count)]

    def _cut(self, splits: list[Split]) -> None:
        for split in splits:
            if self._end.wait(split.pause):
                return
            proxy = self._proxies[split.server]
            proxy.cut(split.kind)
            self.outcome.kills[f"{split.server}: {split.kind}"] += 1
            self._end.wait(split.seconds)
            proxy.heal(reset=split.reset)
