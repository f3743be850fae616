"""Who must receive what, decided on plain text.

Nothing here comes from the policy engine: the sample files and the events' own values are all it
looks at, and it reads policies by `expressions.holds`. It knows the semantics that the user
guide promises: policies add up, nothing is allowed that no policy allows, an attribute needs a
policy on both sides and, where it is protected, a key at the home agents of both sides.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tasks.local.clients import Name, Wish
from tasks.local.demo.expressions import holds
from tasks.local.layout import AGENTS
from tasks.local.samples import Document, SampleEvent


@dataclass(frozen=True)
class Outcome:
    """What must become of one event.

    Args:
        refused: whether its publisher may not publish it at all.
        dropped: attributes that the publisher may not write.
        received: subscriber -> attributes that it must see; nobody else may see anything.
    """

    refused: bool
    dropped: frozenset[str]
    received: Mapping[str, Mapping[str, Any]]


class Oracle:
    """Decides over the organisations' files. Edit `documents` as the story edits policies."""

    def __init__(self, documents: Mapping[str, Document], wishes: Mapping[Name, Iterable[Wish]]):
        self.documents = copy.deepcopy(dict(documents))
        self.wishes = {name: list(wanted) for name, wanted in wishes.items()}
        self.revoked: set[Name] = set()

    def policy(self, domain: str, name: str) -> Document:
        """One policy as the file has it, to be edited."""
        found: Document = next(
            policy for policy in self.documents[domain]["policies"] if policy["name"] == name
        )
        return found

    def split(self, domain: str, kind: str, groups: list[tuple[str, list[str]]]) -> None:
        """From now on events of this type travel in parts: (overlay, attributes)."""
        self.documents[domain].setdefault("parts", {})[kind] = groups

    def decide(self, event: SampleEvent) -> Outcome:
        """What must become of this event now."""
        publisher = self._principal(event.domain, event.publisher)
        writable = self._allowed("publish", publisher, event)
        if writable is None or (event.domain, event.publisher) in self.revoked:
            return Outcome(True, frozenset(), {})
        written = {
            name: value
            for name, value in event.values.items()
            if name in writable and self._protected(event, name, publisher)
        }
        received = {}
        for principal in self.documents[event.domain]["principals"]:
            seen = self._sees(event, principal, written)
            if seen is not None:
                received[principal["name"]] = seen
        return Outcome(False, frozenset(event.values) - frozenset(written), received)

    def _sees(
        self, event: SampleEvent, principal: Document, written: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        name = (event.domain, principal["name"])
        wanted = [wish for wish in self.wishes.get(name, ()) if self._is_a(event, wish.type)]
        readable = self._allowed("subscribe", principal, event)
        if not wanted or readable is None or name in self.revoked:
            return None
        seen = {
            attribute: value
            for attribute, value in written.items()
            if attribute in readable and self._protected(event, attribute, principal)
        }
        if any(holds(wish.filter, seen) for wish in wanted):
            return seen
        return None

    def _allowed(self, action: str, principal: Document, event: SampleEvent) -> set[str] | None:
        """The attributes that all policies together permit; None where none permits anything."""
        values = {f"event.{name}": value for name, value in event.values.items()}
        values |= {f"subject.{name}": value for name, value in principal["attributes"].items()}
        granting = [
            policy
            for policy in self.documents[event.domain]["policies"]
            if policy["action"] == action
            and self._is_a(event, policy["event_type"])
            and holds(policy["expression"], values)
        ]
        if not granting:
            return None
        permitted: set[str] = set()
        for policy in granting:
            listed = policy.get("attributes")
            # No list permits every attribute, an empty one none.
            permitted |= set(event.values if listed is None else listed)
        return permitted

    def _protected(self, event: SampleEvent, attribute: str, principal: Document) -> bool:
        """Whether the principal's home agent, where this attribute travels, has a key for it."""
        keys = self._attribute(event, attribute).get("keys", [])
        home = self._home(event, attribute, principal)
        if home is None:
            return False
        return not keys or any(
            home in group["members"] and set(keys) & set(group["keys"])
            for group in self.documents[event.domain].get("trust_groups", [])
        )

    def _home(self, event: SampleEvent, attribute: str, principal: Document) -> str | None:
        home: str | None = principal["agents"].get(self._overlay(event, attribute))
        return home

    def _overlay(self, event: SampleEvent, attribute: str) -> str:
        parts = self.documents[event.domain].get("parts", {})
        for kind in self._line(event.domain, event.type):
            if kind in parts:
                return next(
                    (overlay for overlay, names in parts[kind] if attribute in names),
                    parts[kind][0][0],
                )
        return min(AGENTS.values())

    def _is_a(self, event: SampleEvent, ancestor: str) -> bool:
        return ancestor in self._line(event.domain, event.type)

    def _line(self, domain: str, kind: str | None) -> list[str]:
        types = {entry["name"]: entry for entry in self.documents[domain]["event_types"]}
        line = []
        while kind is not None and kind in types:
            line.append(kind)
            kind = types[kind].get("parent")
        return line

    def _attribute(self, event: SampleEvent, name: str) -> Document:
        types = {entry["name"]: entry for entry in self.documents[event.domain]["event_types"]}
        for kind in self._line(event.domain, event.type):
            for attribute in types[kind].get("attributes", []):
                if attribute["name"] == name:
                    found: Document = attribute
                    return found
        return {}

    def _principal(self, domain: str, name: str) -> Document:
        found: Document = next(
            entry for entry in self.documents[domain]["principals"] if entry["name"] == name
        )
        return found
