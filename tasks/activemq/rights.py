"""Users, groups and authorisations of one broker, derived from who stands at it.

Rights are given to groups, never to users: ActiveMQ reads its files of users and groups again
when they change, its authorisations only when it starts. Each queue has an entry of its own,
none with a wildcard for agents or clients.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from adminapp.distribution.standing import Standing, StandingAgent, StandingClient
from policyengine.bundles import (
    REQUESTS_QUEUE,
    audience,
    backlog_queue,
    control_queue,
    dead_queue,
    delivery_queue,
    hop_queue,
    publish_queue,
    retry_queue,
)
from tasks.activemq.names import UnusableNameError, java_name, standard_name

CONTROL = "control"
_ENROLLED = r"OU=(agents|clients), UID=[0-9a-f]{32}\Z"
"""How names end that the trusted authority gives out."""


@dataclass(frozen=True)
class Entry:
    """Who may do what with a queue, by groups."""

    queue: str
    read: tuple[str, ...]
    write: tuple[str, ...]

    @property
    def admin(self) -> tuple[str, ...]:
        """Who may bring the queue about: whoever uses it first."""
        return tuple(sorted({*self.read, *self.write}))


@dataclass
class Rights:
    """What one broker is told.

    Args:
        users: user -> distinguished name of its certificate, as Java writes it.
        groups: group -> its users.
        entries: one for each queue.
        left_out: handle or agent -> why it cannot sign in.
    """

    users: dict[str, str] = field(default_factory=dict)
    groups: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    entries: list[Entry] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    def allow(self, queue: str, *, read: Iterable[str], write: Iterable[str]) -> None:
        """Add the entry of a queue."""
        self.entries.append(Entry(queue, tuple(sorted(set(read))), tuple(sorted(set(write)))))


def agent_user(name: str) -> str:
    """An agent's user and group at brokers."""
    return f"agent.{name}"


def client_user(handle: str) -> str:
    """A client's user and group at brokers."""
    return f"client.{handle}"


def overlay_rights(standing: Standing, overlay: str, *, suffix: str = "") -> Rights:
    """Rights at the broker of an overlay.

    Args:
        standing: everybody.
        overlay: its name.
        suffix: of the distinguished names that the operator's authority gives.
    """
    rights = Rights()
    here = standing.on(overlay)
    _users(rights, standing, here, suffix)
    _overlay_queues(rights, here, overlay)
    return rights


def control_rights(standing: Standing, *, suffix: str = "", overlay: str | None = None) -> Rights:
    """Rights at the broker of the control queues, which may carry an overlay too.

    Args:
        standing: everybody.
        suffix: of the distinguished names that the operator's authority gives.
        overlay: name of the overlay whose queues it carries as well, or None.
    """
    rights = Rights()
    _users(rights, standing, standing, suffix)
    for name in standing.comparators:
        user = f"comparator.{name}"
        rights.users[user] = standard_name(name, "comparators", suffix)
        rights.groups[user].add(user)
        queue = control_queue(audience("comparator", name))
        rights.allow(queue, read=[user], write=[CONTROL])
    for user in list(rights.users):
        if user != CONTROL:
            rights.groups[user.partition(".")[0] + "s"].add(user)
    rights.allow(REQUESTS_QUEUE, read=[CONTROL], write=["agents", "clients", "comparators"])
    for agent in standing.agents:
        queue = control_queue(audience("agent", agent.name))
        rights.allow(queue, read=[agent_user(agent.name)], write=[CONTROL])
    for client in standing.clients:
        queue = control_queue(audience("client", client.handle))
        rights.allow(queue, read=[client_user(client.handle)], write=[CONTROL])
    if overlay is not None:
        _overlay_queues(rights, standing.on(overlay), overlay)
    return rights


def _overlay_queues(rights: Rights, here: Standing, overlay: str) -> None:
    for agent in here.agents:
        _agent_queues(rights, agent, here.agents)
    for client in here.clients:
        _client_queues(rights, client, client.served_at(overlay))


def _agent_queues(rights: Rights, agent: StandingAgent, all_here: Iterable[StandingAgent]) -> None:
    own = agent_user(agent.name)
    rights.allow(dead_queue(agent.name), read=[own], write=[own])
    for domain in agent.domains:
        homed, peers = f"homed.{agent.name}.{domain}", f"peers.{agent.name}.{domain}"
        rights.groups[homed] = set()
        rights.groups[peers] = {
            agent_user(one.name)
            for one in all_here
            if one.name != agent.name and domain in one.domains
        }
        rights.allow(publish_queue(agent.name, domain), read=[own], write=[homed])
        rights.allow(hop_queue(agent.name, domain), read=[own], write=[own, peers])
        rights.allow(retry_queue(agent.name, domain), read=[own], write=[own])


def _client_queues(rights: Rights, client: StandingClient, agents: Iterable[str]) -> None:
    user, serving = client_user(client.handle), f"serving.{client.handle}"
    rights.groups[serving] = {agent_user(name) for name in agents}
    for domain in (client.domain, *client.visits):
        for name in agents:
            # What a guest publishes abroad goes through its own agents, which serve that too.
            if (homed := f"homed.{name}.{domain}") in rights.groups:
                rights.groups[homed].add(user)
                own = [agent_user(name)]
                rights.allow(backlog_queue(name, domain, client.handle), read=own, write=own)
    rights.allow(delivery_queue(client.handle), read=[user], write=[serving])


def _users(rights: Rights, everybody: Standing, here: Standing, suffix: str) -> None:
    rights.users[CONTROL] = standard_name(CONTROL, CONTROL, suffix)
    rights.groups[CONTROL].add(CONTROL)
    for agent in here.agents:
        # A certificate of the enrolment says which keys it belongs to: one of keys that were
        # replaced is nobody's name any more.
        name = agent.subject or standard_name(agent.name, "agents", suffix)
        rights.users[agent_user(agent.name)] = name
    taken = _taken(everybody, suffix)
    for client in here.clients:
        try:
            name = _client_name(client, suffix, taken)
        except UnusableNameError as error:
            rights.left_out[client.handle] = str(error)
            continue
        rights.users[client_user(client.handle)] = name
    for user in rights.users:
        rights.groups[user].add(user)


def _client_name(client: StandingClient, suffix: str, taken: Mapping[str, int]) -> str:
    if client.subject:
        return client.subject
    standard = standard_name(client.handle, "clients", suffix)
    if not client.certificate_subject:
        return standard
    name = java_name(client.certificate_subject)
    # Names of ours are given out by the operator's authority alone.
    reserved = {
        standard_name("", unit, suffix).partition(", ")[2]
        for unit in ("agents", "clients", "comparators", CONTROL)
    }
    of_enrolment = re.search(_ENROLLED, name) is not None
    if of_enrolment or (name != standard and name.partition(", ")[2] in reserved):
        raise UnusableNameError(f"the name `{name}` is kept for somebody else")
    if taken[name] > 1:
        raise UnusableNameError(f"the name `{name}` stands in certificates of several principals")
    return name


def _taken(everybody: Standing, suffix: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for client in everybody.clients:
        if client.certificate_subject:
            try:
                found[java_name(client.certificate_subject)] += 1
            except UnusableNameError:
                continue
    return found
