"""What an agent tells about itself."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

from brokers.adapters.control_link import ControlLink
from brokers.adapters.disk import DiskWatch
from brokers.agent.metrics import CONTENT_TYPE, Family, exposition
from brokers.agent.policy import InForce, PolicyInForce
from brokers.agent.statistics import Statistics
from brokers.agent.status import Page, json_page
from brokers.data.window import Windows
from brokers.ports import Clock, Transport

_SERVING = "serving"


class Report:
    """Makes the pages from the parts of a running agent.

    Args:
        agent: its name.
        overlay: the overlay it stands on.
        control: connection to the control broker.
        data: connection to the overlay's broker.
        link: the control side.
        policy: what is in force.
        statistics: counters.
        clock: both clocks.
        windows: how far clients are sent ahead.
        disk: whether the agent's folder takes what has to be kept.
    """

    def __init__(
        self,
        *,
        agent: str,
        overlay: str,
        control: Transport,
        data: Transport,
        link: ControlLink,
        policy: PolicyInForce,
        statistics: Statistics,
        clock: Clock,
        windows: Windows,
        disk: DiskWatch,
    ) -> None:
        self._agent = agent
        self._overlay = overlay
        self._control = control
        self._data = data
        self._link = link
        self._policy = policy
        self._statistics = statistics
        self._clock = clock
        self._windows = windows
        self._disk = disk
        self._started = clock.boot()

    def health(self) -> Page:
        """The process is alive, and what its disk says."""
        return json_page({"agent": self._agent, "alive": True, "disk": self._disk_standing})

    def ready(self) -> Page:
        """Connected, with room on the disk, and every domain that it holds is served."""
        waiting = {
            domain: standing
            for domain in self._policy.domains
            if (standing := self._link.standing(domain)) != _SERVING
        }
        connected = self._control.connected and self._data.connected
        ready = bool(connected and self._policy.domains and not waiting and not self._disk.problem)
        document = {
            "ready": ready,
            "connected": connected,
            "waiting": waiting,
            "disk": self._disk_standing,
        }
        return json_page(document, 200 if ready else 503)

    @property
    def _disk_standing(self) -> str:
        return self._disk.problem or "ok"

    def status(self) -> Page:
        """Everything."""
        return json_page(self.document())

    def document(self) -> dict[str, object]:
        """Everything, as plain JSON values."""
        domains = sorted(set(self._policy.domains) | self._statistics.domains())
        return {
            "agent": self._agent,
            "overlay": self._overlay,
            "uptime_seconds": round(self._clock.boot() - self._started, 1),
            "root": self._link.root_version,
            "control_connected": self._control.connected,
            "data_connected": self._data.connected,
            "disk": self._disk_standing,
            "not_kept": self._link.not_kept,
            "domains": {domain: self._domain(domain) for domain in domains},
            "refused_bundles": [asdict(item) for item in reversed(list(self._link.rejections))],
            "last_refusals": self._statistics.last_refusals(),
        }

    def _domain(self, domain: str) -> dict[str, object]:
        held = self._policy.domains.get(domain)
        view = self._link.view
        standing = self._link.standing(domain)
        confirming, behind, ahead = self._windows.counts(domain)
        return {
            "standing": standing,
            "delivering": standing == _SERVING and not self._disk.problem,
            "lease_seconds_left": round(view.book.remaining(domain, self._clock.boot()), 1),
            "notice": view.state.notices.get(domain, 0),
            "counters": self._statistics.counters(domain),
            "refusals": self._statistics.refusals(domain),
            "clients_confirming": confirming,
            "clients_behind": behind,
            "sent_ahead": ahead,
            "subscriptions": len(self._policy.own_subscriptions(domain)),
            **({} if held is None else _policy(held)),
        }

    def metrics(self) -> Page:
        """Counters and gauges in Prometheus' text format."""
        families = [*self._counted(), *self._domain_gauges(), *self._process()]
        return Page(200, exposition(families), CONTENT_TYPE)

    def _counted(self) -> list[Family]:
        events = Family(
            "portcullis_events_total", "counter", "What was done with messages, by domain."
        )
        refusals = Family(
            "portcullis_refusals_total", "counter", "Messages that were refused, by reason."
        )
        for domain in sorted(self._statistics.domains()):
            for what, number in sorted(self._statistics.counters(domain).items()):
                events.add(number, agent=self._agent, domain=domain, what=what)
            for reason, number in sorted(self._statistics.refusals(domain).items()):
                refusals.add(number, agent=self._agent, domain=domain, reason=reason)
        return [events, refusals]

    def _domain_gauges(self) -> list[Family]:
        revision = Family("portcullis_revision", "gauge", "Revision of the policy in force.")
        serving = Family("portcullis_serving", "gauge", "1 where the domain is served, else 0.")
        left = Family(
            "portcullis_lease_seconds_left", "gauge", "Seconds until the domain's lease ends."
        )
        behind = Family(
            "portcullis_clients_behind", "gauge", "Clients for which events wait at the agent."
        )
        ahead = Family(
            "portcullis_sent_ahead", "gauge", "Deliveries that clients have not confirmed yet."
        )
        for domain, held in sorted(self._policy.domains.items()):
            labels = {"agent": self._agent, "domain": domain}
            revision.add(held.snapshot.revision, **labels)
            serving.add(int(self._link.standing(domain) == _SERVING), **labels)
            seconds = self._link.view.book.remaining(domain, self._clock.boot())
            left.add(round(seconds, 1), **labels)
            _, waiting, unconfirmed = self._windows.counts(domain)
            behind.add(waiting, **labels)
            ahead.add(unconfirmed, **labels)
        return [revision, serving, left, behind, ahead]

    def _process(self) -> list[Family]:
        connected = Family(
            "portcullis_connected", "gauge", "1 where the broker is reached, else 0."
        )
        connected.add(int(self._control.connected), agent=self._agent, broker="control")
        connected.add(int(self._data.connected), agent=self._agent, broker="overlay")
        usable = Family(
            "portcullis_disk_usable", "gauge", "1 where the disk takes what has to be kept, else 0."
        )
        usable.add(int(not self._disk.problem), agent=self._agent)
        waiting = Family(
            "portcullis_not_kept", "gauge", "Control messages that wait for room on the disk."
        )
        waiting.add(self._link.not_kept, agent=self._agent)
        uptime = Family("portcullis_uptime_seconds", "gauge", "Seconds since the agent started.")
        uptime.add(round(self._clock.boot() - self._started, 1), agent=self._agent)
        memory = Family(
            "process_resident_memory_bytes", "gauge", "Memory of the process that is resident."
        )
        memory.add(resident_bytes())
        return [connected, usable, waiting, uptime, memory]


def resident_bytes() -> int:
    """Memory of this process that is resident; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _policy(held: InForce) -> dict[str, object]:
    snapshot = held.snapshot
    subscriptions = {handle for found in held.subscriptions.by_type.values() for handle in found}
    return {
        "revision": snapshot.revision,
        "digest": snapshot.digest,
        "epochs": {str(number): epoch.state for number, epoch in sorted(snapshot.epochs.items())},
        "attribute_keys": sorted({name for name, _ in snapshot.attribute_keys}),
        "clients": len(snapshot.clients),
        "peers": sorted(peer.name for peer in snapshot.peers),
        "denied": sorted(snapshot.denied),
        "held": sorted(snapshot.held),
        "subscribers": sorted(subscriptions),
        "subscriptions_broken": len(held.subscriptions.broken),
    }
