"""The last step: the whole story's STOMP traffic is searched for what must not stand in it."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator

from brokers.adapters.brokers_file import BrokersFile
from brokers.adapters.stomp import StompTransport
from tasks.local import samples
from tasks.local.demo.expressions import names_and_values
from tasks.local.demo.report import Step
from tasks.local.demo.world import World, wait
from tasks.local.samples import Document
from tasks.local.search import Finding, search

CANARY_QUEUE = "pc.canary"
_DAYS = ((1, 1), (1, 2), (1, 3), (1, 4), (1, 5))


def search_capture(step: Step, world: World) -> None:
    """7. No tail number, no customer, no word of a policy; a planted canary proves the search."""
    groups = {
        "tail numbers": set(_tail_numbers()),
        "customers and other principals": set(_principals(world.documents.values())),
        "attribute names": set(_attributes(world.documents.values())),
        "words of policies": set(_policies(world.oracle.documents.values())),
        "event types": {t["name"] for d in world.documents.values() for t in d["event_types"]},
    }
    canaries = {name: f"N{secrets.randbelow(10**6):06}PC" for name in world.stack.brokers}
    for overlay, canary in canaries.items():
        _plant(world, overlay, canary)
    found = search(world.capture, set().union(canaries.values(), *groups.values()))
    step.true(
        f"captured: {found.size / 2**20:.1f} MiB in {found.files} streams", found.size > 2**20
    )
    step.equal(
        "the search finds a planted tail number on both brokers",
        sorted({finding.text for finding in found.findings} & set(canaries.values())),
        sorted(canaries.values()),
    )
    for what, texts in groups.items():
        shown = [_shown(finding) for finding in found.findings if finding.text in texts]
        step.equal(f"{what}: {len(texts)} texts looked for, found", shown, [])


def _shown(found: Finding) -> str:
    return f"{found.text} ({found.form}, {found.times} times, by chance {found.expected:.1f})"


def _plant(world: World, overlay: str, canary: str) -> None:
    """Send the canary as anybody could, in clear, through the captured connection."""
    brokers = BrokersFile.load(world.layout.brokers_file("control"))
    transport = StompTransport(brokers.overlays[overlay], name=f"canary-{overlay}")
    try:
        transport.connect(60.0)
        transport.send(CANARY_QUEUE, f"a planted text: {canary}.".encode())
    finally:
        transport.close()
    wait(
        "the canary to be captured",
        lambda: bool(search(world.capture, [canary]).findings),
        seconds=60,
    )


def _tail_numbers() -> Iterator[str]:
    for month, day in _DAYS:
        for event in samples.day(month, day):
            if "tailnum" in event.values:
                yield str(event.values["tailnum"])


def _principals(documents: Iterable[Document]) -> Iterator[str]:
    for document in documents:
        for principal in document["principals"]:
            yield principal["name"]
            yield from map(str, principal["attributes"].values())


def _attributes(documents: Iterable[Document]) -> Iterator[str]:
    for document in documents:
        yield from (attribute["name"] for attribute in document["subject_attributes"])
        for kind in document["event_types"]:
            yield from (attribute["name"] for attribute in kind.get("attributes", []))


def _policies(documents: Iterable[Document]) -> Iterator[str]:
    for document in documents:
        for policy in document["policies"]:
            yield policy["name"]
            yield policy["title"]
            yield policy["expression"]
            for text in names_and_values(policy["expression"]):
                yield text
                yield text.rpartition(".")[2]
