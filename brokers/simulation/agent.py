"""An agent in a simulation: `brokers.agent`'s parts over lines and a disk in memory."""

from __future__ import annotations

from collections.abc import Callable

from brokers.adapters.control_link import ControlLink
from brokers.agent.dataplane import DataPlane
from brokers.agent.policy import PolicyInForce, Progress
from brokers.agent.routing import OverlayRouting
from brokers.agent.statistics import Statistics
from brokers.control.sync import Identity
from brokers.simulation.disk import AgentDisk
from brokers.simulation.node import Node, Surroundings
from brokers.simulation.organisation import Organisation
from brokers.simulation.plan import AgentSite
from policyengine.bundles import audience

_TICK = 0.5


class SimulatedAgent(Node):
    """One agent. Put together as `brokers.agent.service.Agent` does it, without threads.

    Args:
        site: which agent.
        organisation: for its keys and anchors.
        around: see `Surroundings`.
        clock_error: seconds by which its wall clock is wrong.
    """

    def __init__(
        self,
        site: AgentSite,
        organisation: Organisation,
        around: Surroundings,
        clock_error: float = 0.0,
    ) -> None:
        super().__init__(site.name, around, tick=_TICK, clock_error=clock_error)
        self._site = site
        self._organisation = organisation
        self._address = audience("agent", site.name)
        self._disk = AgentDisk.empty(self._address, self.guard)
        self.statistics = Statistics()
        self.failures: list[str] = []

    def boot(self) -> None:
        """Put the agent together from what its disk kept."""
        keys, disk = self._organisation.keys[self._address], self._disk
        progress = Progress()
        self.policy = PolicyInForce(
            agent=self.name,
            overlay=self._site.overlay,
            sealing_key=keys.sealing,
            subscription_file=disk.subscriptions,
            progress=progress,
        )
        self.link = ControlLink(
            transport=self.connect("control"),
            identity=Identity(self._address, keys.sealing, self._organisation.authority.anchors()),
            signing_key=keys.signing,
            bundles=disk.bundles,
            state_file=disk.state,
            clock=self.clock,
            applier=self.policy,
        )
        self._data = self.connect(self._site.overlay)
        self._plane = DataPlane(
            agent=self.name,
            keys=keys,
            transport=self._data,
            policy=self.policy,
            standing=self.link.standing,
            now=self.link.now,
            seen=disk.seen,
            statistics=self.statistics,
            progress=progress,
            clock=self.clock,
            routing=OverlayRouting(
                agent=self.name,
                keys=keys,
                policy=self.policy,
                now=self.link.now,
                clock=self.clock,
                store=disk.routes,
            ),
        )
        self.link.restore()
        self.link.listen()
        self._data.start()

    def work(self) -> None:
        """One round of the control side, then batches until nothing is left."""
        self._round(self.link.step)
        taken = -1
        while taken != self._data.taken:
            taken = self._data.taken
            self._round(self._plane.step)

    def _round(self, step: Callable[[float], None]) -> None:
        try:
            step(0.0)
        except Exception as error:  # noqa: BLE001 - as the agent's own loop
            self.failures.append(type(error).__name__)
            self.around.history.note(self.name, "round failed", error=type(error).__name__)
