"""Organisations of any size in a database, written in bulk: what benchmarks ask questions about."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any, TypeVar

from django.db import transaction

from adminapp.catalog.models import Attribute, EventType, SubjectAttribute
from adminapp.identity.models import Agent, Domain, HomeAgent, Overlay, Principal
from adminapp.policies.models import Policy
from adminapp.roles.models import Appointment, Role, RoleRule

BATCH = 5_000
SINCE = datetime(2026, 1, 1, tzinfo=UTC)
TEAMS = 10
T = TypeVar("T")


def load(*, domains: int, roles: int, types: int, policies: int, principals: int) -> None:
    """Fill an empty database; the numbers are totals, spread evenly over the domains.

    Each role asks for one appointment, each principal has two; every second policy asks for a
    role, the others for a team; types stand in pairs, one below the other.
    """
    with transaction.atomic():
        overlay = Overlay.objects.create(name="a", title="A")
        agent = Agent.objects.create(
            name="alpha", overlay=overlay, sealing_key="A" * 43, verify_key="A" * 43
        )
        held = _many(
            Domain,
            (Domain(name=f"d{n}", title=f"Domain {n}", revision=1) for n in range(domains)),
        )
        _many(
            SubjectAttribute,
            (SubjectAttribute(domain=d, name="team", type={"type": "string"}) for d in held),
        )
        _roles(held, roles // domains)
        by_domain = _types(held, types // domains)
        _principals(held, principals // domains, roles // domains, overlay, agent)
        _policies(by_domain, policies // domains, roles // domains)


def _many(model: Any, rows: Iterator[T]) -> list[T]:
    found: list[T] = []
    while batch := list(islice(rows, BATCH)):
        found += model.objects.bulk_create(batch)
    return found


def _roles(domains: list[Domain], count: int) -> None:
    rows = _many(Role, (Role(domain=d, name=f"r{n}") for d in domains for n in range(count)))
    _many(RoleRule, (RoleRule(role=row, appointments=[f"a{row.name[1:]}"]) for row in rows))


def _types(domains: list[Domain], count: int) -> dict[Domain, list[EventType]]:
    tops = _many(
        EventType,
        (EventType(domain=d, name=f"T{n}") for d in domains for n in range(0, count, 2)),
    )
    below = _many(
        EventType,
        (
            EventType(domain=top.domain, name=f"T{int(top.name[1:]) + 1}", parent=top)
            for top in tops
        ),
    )
    _many(
        Attribute,
        (
            Attribute(event_type=row, name=f"{name}{row.name[1:]}", type=kind, order=place)
            for row in (*tops, *below)
            for place, (name, kind) in enumerate(
                (("level", {"type": "int", "min": 0, "max": 9}), ("place", {"type": "string"}))
            )
        ),
    )
    found: dict[Domain, list[EventType]] = {}
    for row in (*tops, *below):
        found.setdefault(row.domain, []).append(row)
    return found


def _principals(
    domains: list[Domain], count: int, roles: int, overlay: Overlay, agent: Agent
) -> None:
    rows = _many(
        Principal,
        (
            Principal(
                domain=d,
                name=f"p{n}",
                kind="subscriber",
                attributes={"team": f"t{n % TEAMS}"},
                sealing_key="A" * 43,
                verify_key="A" * 43,
            )
            for d in domains
            for n in range(count)
        ),
    )
    _many(HomeAgent, (HomeAgent(principal=row, overlay=overlay, agent=agent) for row in rows))
    _many(
        Appointment,
        (
            Appointment(principal=row, name=f"a{(n * 7 + shift) % roles}", starts=SINCE)
            for n, row in enumerate(rows)
            for shift in (0, 1)
        ),
    )


def _policies(types: dict[Domain, list[EventType]], count: int, roles: int) -> None:
    _many(
        Policy,
        (
            Policy(
                domain=domain,
                name=f"policy {n}",
                action="subscribe" if n % 3 else "publish",
                event_type=held[n % len(held)],
                expression=expression(n, roles),
            )
            for domain, held in types.items()
            for n in range(count)
        ),
    )


def expression(number: int, roles: int) -> str:
    """Whom a policy is about."""
    if number % 2:
        return f'subject.role == "r{number % roles}"'
    return f'subject.team == "t{number % TEAMS}"'
