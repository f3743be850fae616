"""Rows of a file as principals of a domain: what each becomes, or why it cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from django.core.exceptions import ValidationError

from adminapp.core import names
from adminapp.core.errors import Invalid
from adminapp.identity import credentials, homes, ports
from adminapp.identity.csvfile import Record, Refusal, is_formula, printable, records
from adminapp.identity.models import Agent, Domain, HomeAgent, Principal
from policyengine.errors import InputError

ATTRIBUTE: Final = "attribute."
COLUMNS: Final = frozenset(
    {
        "name",
        "kind",
        "agents",
        "fallbacks",
        "broker",
        "sealing_key",
        "verify_key",
        "certificate",
        "appointments",
    }
)
_KINDS: Final = frozenset(Principal.Kind.values)
MAX_REMEMBERED: Final = 100_000


@dataclass
class Wanted:
    """A principal that a row asks for; the rows are not saved."""

    row: Principal
    homes: list[HomeAgent]
    appointments: tuple[str, ...] = ()


@dataclass
class Checker:
    """Turns records into principals; what many rows share is worked out once."""

    domain: Domain
    now: datetime
    read_value: Callable[[str, str], Any]
    appointable: Callable[[str], str | None]
    taken: set[str]
    agents: Mapping[str, Agent]
    brokers: set[int]
    seen: dict[str, int] = field(default_factory=dict)
    places: dict[tuple[str, str], tuple[dict[int, Agent], dict[int, Agent]]] = field(
        default_factory=dict
    )
    values: dict[tuple[str, str], Any] = field(default_factory=dict)

    @classmethod
    def of(cls, domain: Domain, actor: Any, now: datetime) -> Checker:
        """For a domain as it is now."""
        held = Principal.objects.filter(domain=domain)
        return cls(
            domain=domain,
            now=now,
            read_value=ports.subject_reader(domain),
            appointable=ports.appointments_of(domain, actor).problem,
            taken=set(held.values_list("name", flat=True)),
            agents={row.name: row for row in Agent.objects.select_related("overlay")},
            brokers=set(held.exclude(broker=None).values_list("broker", flat=True)),
        )

    def rows(self, path: Path) -> Iterator[Wanted | list[Refusal]]:
        """Every row of a file in order: a principal, or the reasons why it is none.

        Raises:
            Unreadable: the file is no table of principals.
        """
        for record in records(path, COLUMNS, ATTRIBUTE):
            if isinstance(record, Refusal):
                yield [record]
                continue
            yield self._checked(record)

    def _checked(self, record: Record) -> Wanted | list[Refusal]:
        problems: list[Refusal] = []
        row = Principal(domain=self.domain)
        found: list[HomeAgent] = []
        for step in (self._name, self._kind, self._attributes, self._keys):
            try:
                step(row, record)
            except Invalid as error:
                problems += _refusals(record, error)
        try:
            found = self._homes(row, record)
        except Invalid as error:
            problems += _refusals(record, error)
        appointments = tuple(_listed(record.cells.get("appointments", "")))
        for name in appointments:
            problem = self.appointable(name)
            if problem is not None:
                problems.append(Refusal(record.line, "appointments", problem))
        return problems or Wanted(row, found, appointments)

    def _name(self, row: Principal, record: Record) -> None:
        name = record.cells.get("name", "")
        if not name:
            raise Invalid.at("/name", "this cell is empty")
        try:
            names.label(name)
        except ValidationError as error:
            raise Invalid.at("/name", str(error.messages[0])) from error
        if name in self.taken:
            raise Invalid.at("/name", f"the domain has a principal `{name}` already")
        first = self.seen.setdefault(name, record.line)
        if first != record.line:
            raise Invalid.at("/name", f"`{name}` stands in line {first} already")
        row.name = name

    def _kind(self, row: Principal, record: Record) -> None:
        kind = record.cells.get("kind", "")
        if kind not in _KINDS:
            allowed = ", ".join(Principal.Kind.values)
            raise Invalid.at("/kind", f"`{printable(kind)}` is none of {allowed}")
        row.kind = kind
        broker = record.cells.get("broker", "")
        if (kind == Principal.Kind.AGENT) != bool(broker):
            raise Invalid.at("/broker", "the kind `agent`, and no other, names a broker agent")
        if broker:
            row.broker = self._agent(broker, "broker")
            if row.broker.state == Agent.State.BANNED:
                raise Invalid.at("/broker", f"`{broker}` is banned")
            if row.broker.pk in self.brokers:
                raise Invalid.at("/broker", f"`{broker}` is a principal of the domain already")
            self.brokers.add(row.broker.pk)

    def _attributes(self, row: Principal, record: Record) -> None:
        values: dict[str, Any] = {}
        for column, text in record.cells.items():
            if column.startswith(ATTRIBUTE):
                values[column.removeprefix(ATTRIBUTE)] = self._value(column, text)
        row.attributes = values

    def _value(self, column: str, text: str) -> Any:
        held = self.values.get((column, text), self)
        if held is not self:
            return held
        if is_formula(text):
            raise Invalid.at(f"/{column}", "a spreadsheet would run this text as a formula")
        try:
            value = self.read_value(column.removeprefix(ATTRIBUTE), text)
        except InputError as error:
            raise Invalid.at(f"/{column}", error.message) from error
        if len(self.values) < MAX_REMEMBERED:
            self.values[column, text] = value
        return value

    def _keys(self, row: Principal, record: Record) -> None:
        given = {
            name: record.cells.get(name) for name in ("sealing_key", "verify_key", "certificate")
        }
        if row.broker is not None:
            if any(given.values()):
                raise Invalid.at("/broker", "a broker agent has keys of its own")
            row.sealing_key, row.verify_key = row.broker.sealing_key, row.broker.verify_key
        elif any(given.values()):
            credentials.assign(row, now=self.now, **given)

    def _homes(self, row: Principal, record: Record) -> list[HomeAgent]:
        cells = (record.cells.get("agents", ""), record.cells.get("fallbacks", ""))
        if cells not in self.places:
            first = homes.by_overlay(self._agents(cells[0], "agents"), "agents")
            second = homes.by_overlay(self._agents(cells[1], "fallbacks"), "fallbacks")
            homes.check_fallbacks(first, second)
            self.places[cells] = (first, second)
        first, second = self.places[cells]
        if row.broker is not None and not first:
            first = {row.broker.overlay_id: row.broker}
        return [
            HomeAgent(
                principal=row, overlay=agent.overlay, agent=agent, fallback=second.get(overlay)
            )
            for overlay, agent in first.items()
        ]

    def _agents(self, cell: str, column: str) -> list[Agent]:
        return [self._agent(name, column) for name in _listed(cell)]

    def _agent(self, name: str, column: str) -> Agent:
        if name not in self.agents:
            raise Invalid.at(f"/{column}", f"there is no agent `{printable(name)}`", "unknown")
        return self.agents[name]


def _listed(cell: str) -> list[str]:
    """Names in one cell, separated by semicolons."""
    return [name for name in (part.strip() for part in cell.split(";")) if name]


def _refusals(record: Record, error: Invalid) -> list[Refusal]:
    return [
        Refusal(record.line, problem.pointer.removeprefix("/"), problem.message)
        for problem in error.problems
    ]
