"""Processes of the control plane die at every point of the outbox's work: all comes out the same.

The story: a change is compiled and brought to everybody; two more while an agent hears nothing,
so that the first of them is superseded; then somebody is revoked, from T0 to the receipt, with
notice, recompute and every step of the rollout. It is played without a death, which names the
points, and twice with deaths: at every other point, and at the points between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from adminapp.core.authority import get_authority
from adminapp.distribution import selectors, services, upkeep
from adminapp.distribution.models import Bundle, EncodedItem, EncodingEpoch, Notice
from adminapp.identity.models import Domain, Principal
from adminapp.outbox.models import OutboxRow
from adminapp.policies import remembered
from policyengine.bundles import messages
from tests.support.audiences import begin_journal, live_authority
from tests.support.dying_worker import DyingPlane
from tests.support.known_keys import held_tag_keys
from tests.unit.distribution.conftest import load

__all__ = ["live_authority"]


@dataclass
class Ending:
    """What came out, told so that two plays can be compared."""

    revision: int
    held: list[tuple[str, int]]
    epochs: list[tuple[int, str]]
    items: Counter[str]
    timeline: Counter[str]
    receipt: dict[str, Any]
    bundles: Counter[str]
    notices: list[tuple[str, int, str]]
    left_rows: int
    failed_rows: int


def play(plane: DyingPlane) -> Ending:
    domain = load(plane, "heating")
    plane.settle()
    plane.lease_all()
    change(domain)
    plane.settle()
    alpha = plane.audiences["agent:alpha"]
    alpha.deaf = True
    for _ in range(2):
        change(domain)
        plane.settle()
    alpha.deaf = False
    plane.settle()
    principal = held_tag_keys("X-104211")
    while not domain.revocations.exists():
        # Where it died before the commit the person saw an error, and asks again.
        plane.attempt("revoke", partial(revoke, principal))
    plane.settle()
    plane.look()
    return ending(plane, domain)


def revoke(principal: Principal) -> None:
    services.revoke_principal(actor=None, principal=principal, reason="moved away")


def change(domain: Domain) -> None:
    upkeep._raise_revision({domain.pk}, "bundles.renewed")


def ending(plane: DyingPlane, domain: Domain) -> Ending:
    domain.refresh_from_db()
    revocation = domain.revocations.get()
    body = messages.verify_receipt(revocation.receipt, get_authority().anchors().receipt)
    newest = Bundle.objects.filter(domain=domain, revision=domain.revision)
    return Ending(
        revision=domain.revision,
        # Handles of clients are drawn anew in every play.
        held=sorted(
            (address if address.startswith("agent:") else "client", held.header.revision)
            for address, each in plane.audiences.items()
            for held in each.bundles.values()
        ),
        epochs=list(
            EncodingEpoch.objects.filter(domain=domain)
            .order_by("number")
            .values_list("number", "state")
        ),
        items=Counter(EncodedItem.objects.values_list("epoch__number", flat=True)),
        timeline=Counter(
            event.kind for event in selectors.revocation_timeline(revocation.pk).events
        ),
        receipt={
            "agents": sorted(entry["agent"] for entry in body["notices"] if entry["acknowledged"]),
            "switches": sorted(entry["agent"] for entry in body["switches"] if entry["switched"]),
            **{name: body[name] for name in ("unreachable", "encodings_replaced", "epochs")},
        },
        bundles=Counter(newest.values_list("state", flat=True)),
        notices=list(Notice.objects.order_by("pk").values_list("audience", "number", "state")),
        left_rows=OutboxRow.objects.filter(
            Q(state="claimed") | Q(state="pending", available_at__lte=timezone.now())
        ).count(),
        failed_rows=OutboxRow.objects.filter(state="failed").count(),
    )


def test_wherever_a_process_dies_the_outbox_comes_to_the_same_end(
    db: None, live_authority: Path, settings: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    settings.AUTHORITY_SOCKET = live_authority
    settings.DRAIN_SECONDS = 0

    def played(dies: Callable[[int, str], bool]) -> tuple[Ending, DyingPlane]:
        begin_journal(live_authority, tmp_path_factory.mktemp("journal"))
        plane = DyingPlane()
        plane.dies = dies
        remembered.forget()
        with transaction.atomic(), pytest.MonkeyPatch.context() as patch:
            # The play is one transaction for the tests' sake alone: what is one by itself in a
            # process must be taken back by itself.
            patch.setattr(transaction, "atomic", partial(each_alone, transaction.atomic))
            found = play(plane)
            transaction.set_rollback(True)
        return found, plane

    expected, undisturbed = played(lambda number, name: False)
    check_points(undisturbed.points)
    assert undisturbed.died == []
    assert set(expected.bundles) == {"applied"}
    assert (expected.left_rows, expected.failed_rows) == (0, 0)
    places = {name: number for number, name in enumerate(undisturbed.points)}
    died: set[str] = set()
    for rest in (0, 1):
        found, plane = played(lambda number, name, rest=rest: places.get(name, 0) % 2 == rest)
        assert plane.problems == []
        assert vars(found) == vars(expected)
        died.update(plane.died)
    assert died >= set(places)


def each_alone(
    atomic: Any, using: Any = None, savepoint: bool = True, durable: bool = False
) -> Any:
    return atomic(using, True, durable)


def check_points(points: list[str]) -> None:
    """Those that matter are among them."""
    assert len(set(points)) == len(points) > 100
    for topic in ("compile", "push", "notice", "advance"):
        assert f"{topic}: update outbox_outboxrow" in points  # claimed
    for topic in ("push", "notice"):
        assert {f"{topic}: send", f"{topic}: the broker has it"} <= set(points)
    for what in (
        "push: update distribution_bundle", "notice: update distribution_notice",
        "bundle applied: update distribution_bundle", "compile: update distribution_bundle",
        "notice applied: insert distribution_revocationevent",
        "lease: update distribution_recipient", "advance: update distribution_rollout",
        "advance: update distribution_rolloutmember", "recompute: insert distribution_encodeditem",
        "revoke: insert distribution_notice",
    ):  # fmt: skip
        assert f"{what}, done" in points
