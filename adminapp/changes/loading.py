"""Loads organisations from files: what is new is made, what is there stays unless asked for.

Loading the samples again must not undo a manager's work, nor give back what was taken away, so
files of a domain that exists are only compared with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from adminapp.audit import services as audit
from adminapp.changes import files as policy_files
from adminapp.changes import planning
from adminapp.changes.operations import Operation, carry_out
from adminapp.changes.yamlfiles import MAX_BYTES
from adminapp.core.errors import Invalid
from adminapp.core.journal import Journal
from adminapp.identity.models import Domain, Principal, User


@dataclass
class LoadReport:
    """What a load did, by object (`policy flights/own flights`)."""

    created: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    unchanged: int = 0


def load(paths: Iterable[Path], *, actor: User | None = None, update: bool = False) -> LoadReport:
    """Load files, all of them or nothing.

    Args:
        update: bring domains that exist in line with the files; without it the differences are
            only reported. Nothing is ever deleted, and nobody revoked comes back.

    Raises:
        Invalid: something is wrong in one of the files; nothing was changed.
        ServiceError: a service refused; nothing was changed.
    """
    objects = policy_files.read_all(read(path) for path in paths)
    there = set(Domain.objects.values_list("name", flat=True))
    report = LoadReport()
    book = Journal(source="command", message="organisations loaded", batch=True, approved=True)
    with audit.changing(book) as held:
        operations, report.unchanged = policy_files.wanted(actor, objects, partial=True)
        operations = [each for each in operations if not _revoked(each)]
        chosen = [each for each in operations if update or each.domain not in there]
        left = [each for each in operations if each not in chosen]
        report.different = [_name(each.kind, each.domain, each.key) for each in left]
        problems = carry_out(actor=actor, operations=chosen)
        if problems:
            raise Invalid(problems)
        for change in planning.coalesced(held.items):
            if any((change.domain, change.kind, change.key) == _slot(each) for each in chosen):
                named = report.created if change.op == "create" else report.updated
                named.append(_name(change.kind, change.domain, change.key))
    report.unchanged = len(objects) - len(chosen) - len(left)
    return report


def read(path: Path) -> tuple[str, bytes]:
    """Name and bytes of a file.

    Raises:
        Invalid: it cannot be read, or is too large.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise Invalid.at(f"{path.name}: ", f"the file has more than {MAX_BYTES} bytes")
        return path.name, path.read_bytes()
    except OSError as error:
        raise Invalid.at(f"{path.name}: ", f"cannot be read: {error.strerror}") from error


def _revoked(operation: Operation) -> bool:
    """Whether it speaks of somebody who was revoked, or of what such a one held."""
    if operation.kind == "principal":
        name = operation.key
    elif operation.kind == "appointment":
        name = str((operation.document or {}).get("principal", ""))
    else:
        return False
    rows = Principal.objects.filter(domain__name=operation.domain, name=name)
    return rows.filter(state=Principal.State.REVOKED).exists()


def _slot(operation: Operation) -> tuple[str, str, str]:
    return operation.domain, operation.kind, operation.key


def _name(kind: str, domain: str, key: str) -> str:
    return f"{kind} {domain}" if kind == "domain" else f"{kind} {domain}/{key}"
