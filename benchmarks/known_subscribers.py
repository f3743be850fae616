"""One agent's work for an event while it knows many subscribers, as JSON: `... COUNT`."""

from __future__ import annotations

import json
import resource
import statistics
import sys
import time
from dataclasses import replace

from benchmarks.bench_data import organise
from brokers.control.sync import Identity, open_verified
from brokers.data.handle import Workbench, handle_client_message
from brokers.data.subscriptions import Subscription, SubscriptionIndex
from brokers.snapshot import DomainSnapshot, build_snapshot
from policyengine.primitives.rand import SYSTEM_RANDOM
from tests.support.data_plane import Organisation
from tests.support.pure_agents import NOW, publication

AGENT = "alpha"
EVENTS = 200


def main(known: int) -> None:
    """Build an organisation, then admit and deliver events at its one agent."""
    small, large = organise(rules=1), organise(rules=1, known=known)
    snapshot, built = _snapshot(small, large)
    wanted = [Subscription("bench", "p-reader", "one", "Reading", "")]
    wanted += [
        Subscription("bench", f"p-{number}", "one", "Reading", f'text1 == "{number}"')
        for number in range(known)
    ]
    keys = small.agents[AGENT].keys
    bench = Workbench(
        snapshot=snapshot,
        subscriptions=SubscriptionIndex.build(snapshot, wanted),
        sealing_key=keys.sealing,
        signing_key=keys.signing,
        now=NOW,
        oldest=NOW - 3600,
        seen=lambda _key: False,
        random=SYSTEM_RANDOM,
    )
    taken = []
    for number in range(EVENTS):
        identifier = f"{number:032x}"
        values = {"text0": "x" * 1_000}
        body = publication(small, "p-meter", "Reading", values, identifier=identifier)
        start = time.perf_counter()
        effects = handle_client_message(bench, body)
        taken.append(time.perf_counter() - start)
        assert dict(effects.counts)["delivered"] == 1
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"event": statistics.median(taken), "build": built, "memory": peak}))


def _snapshot(small: Organisation, large: Organisation) -> tuple[DomainSnapshot, float]:
    """The large one's policy, and how many seconds it took to take it into use.

    It is more than one message carries, so its content is put into the envelope of the small one.
    """
    for field in ("agents", "clients"):
        vars(large)[field] = {**vars(large)[field], **vars(small)[field]}
    large.secret, large.authority = small.secret, small.authority
    keys = small.agents[AGENT].keys
    identity = Identity(f"agent:{AGENT}", keys.sealing, small.authority.anchors())
    sealed = small.bundle(f"agent:{AGENT}", 1)
    opened = open_verified(sealed.message, domain=small.domain, identity=identity)
    opened = replace(opened, content=large.agent_content(AGENT))
    start = time.perf_counter()
    snapshot = build_snapshot(opened, sealing_key=keys.sealing)
    return snapshot, time.perf_counter() - start


if __name__ == "__main__":
    main(int(sys.argv[1]))
