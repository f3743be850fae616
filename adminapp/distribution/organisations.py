"""Loads organisations from files through the same services that console and API use.

All files or nothing: everything is read and checked first, then one transaction makes what is
missing. What exists already stays as it is, unless an update is asked for; so loading twice
changes nothing, and loading the samples again does not undo a manager's work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from adminapp.audit import services as audit
from adminapp.catalog import mapping as catalog_mapping
from adminapp.catalog import services as catalog
from adminapp.catalog.models import AttributeKey, EventType, SubjectAttribute
from adminapp.core.errors import Invalid, ServiceError
from adminapp.distribution.organisation_files import OrganisationSpec, read_file
from adminapp.identity import mapping as identity_mapping
from adminapp.identity import services as identity
from adminapp.identity.models import Agent, Domain, Overlay, Principal, User
from adminapp.policies import mapping as policy_mapping
from adminapp.policies import services as policies
from adminapp.policies.models import Policy
from adminapp.privacy import services as privacy
from adminapp.privacy.models import SplitPlan
from adminapp.roles import mapping as role_mapping
from adminapp.roles import services as roles
from adminapp.roles.models import Appointment, Role
from adminapp.trustgroups import mapping as group_mapping
from adminapp.trustgroups import services as trustgroups
from adminapp.trustgroups.models import TrustGroup

_PIA_DEFAULT = "non-confidential"


@dataclass
class LoadReport:
    """What a load did, by object (`policy flights/own flights`)."""

    created: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    unchanged: int = 0


def load_organisations(
    paths: Iterable[Path], *, actor: User | None = None, update: bool = False
) -> LoadReport:
    """Load files.

    Args:
        update: bring objects that exist but differ in line with the file; without it they are
            only reported. Nothing is ever deleted.

    Raises:
        Invalid: something is wrong in one of the files; nothing was changed.
        ServiceError: a service refused; nothing was changed.
    """
    files = [(path.name, read_file(path)) for path in paths]
    report = LoadReport()
    with audit.changing():
        for name, spec in files:
            _Load(name, spec, actor, report, update).run()
    return report


class _Load:
    """The load of one file."""

    def __init__(
        self,
        file: str,
        spec: OrganisationSpec,
        actor: User | None,
        report: LoadReport,
        update: bool,
    ) -> None:
        self._file, self._spec, self._actor = file, spec, actor
        self._report, self._update = report, update
        self._domain: Domain = self._load_domain()

    def run(self) -> None:
        """Make what is missing, in the order in which things stand on one another."""
        sections: tuple[tuple[str, str, Callable[[Any], None]], ...] = (
            ("attribute_keys", "attribute key", self._attribute_key),
            ("subject_attributes", "subject attribute", self._subject_attribute),
            ("event_types", "event type", self._event_type),
            ("roles", "role", self._role),
            ("principals", "principal", self._principal),
            ("trust_groups", "trust group", self._trust_group),
            ("policies", "policy", self._policy),
            ("splits", "split", self._split),
        )
        for section, _, load in sections:
            for index, item in enumerate(getattr(self._spec, section)):
                self._at(f"/{section}/{index}", load, item)

    def _at(self, pointer: str, load: Callable[[Any], Any], item: Any) -> Any:
        """Point at the place in the file when a service refuses."""
        try:
            return load(item)
        except Invalid as error:
            raise error.below(f"{self._file}: {pointer}") from error
        except ServiceError as error:
            raise Invalid.at(f"{self._file}: {pointer}", error.message) from error

    def _settle(
        self,
        what: str,
        held: Mapping[str, Any] | None,
        wanted: Mapping[str, Any],
        *,
        create: Callable[[], Any],
        update: Callable[[], Any],
    ) -> None:
        name = f"{what} {self._spec.domain.name}/{wanted.get('name', '')}".rstrip("/")
        if held is None:
            create()
            self._report.created.append(name)
        elif all(held.get(key) == value for key, value in wanted.items()):
            self._report.unchanged += 1
        elif self._update:
            update()
            self._report.updated.append(name)
        else:
            self._report.different.append(name)

    # -- sections ------------------------------------------------------------------------

    def _load_domain(self) -> Domain:
        return self._at("/domain", self._make_domain, asdict(self._spec.domain))

    def _make_domain(self, wanted: dict[str, Any]) -> Domain:
        parent = wanted["parent"] and self._one(Domain, wanted["parent"], "/parent")
        values = {**wanted, "parent": parent or None}
        row = Domain.objects.filter(name=wanted["name"]).first()
        rest = {key: value for key, value in values.items() if key != "name"}
        self._settle(
            "domain",
            identity_mapping.domain(row) if row else None,
            wanted,
            create=lambda: identity.create_domain(actor=self._actor, **values),
            update=lambda: identity.update_domain(actor=self._actor, domain=row, data=rest),
        )
        return Domain.objects.get(name=wanted["name"])

    def _attribute_key(self, item: Any) -> None:
        row = AttributeKey.objects.filter(domain=self._domain, name=item.name).first()
        self._settle(
            "attribute key",
            catalog_mapping.attribute_key(row) if row else None,
            asdict(item),
            create=lambda: catalog.create_attribute_key(**self._who, **asdict(item)),
            update=lambda: catalog.update_attribute_key(
                actor=self._actor, attribute_key=row, data={"title": item.title}
            ),
        )

    def _subject_attribute(self, item: Any) -> None:
        declared = catalog_mapping.attribute_type(item.type, "/type").to_json()
        row = SubjectAttribute.objects.filter(domain=self._domain, name=item.name).first()
        self._settle(
            "subject attribute",
            catalog_mapping.subject_attribute(row) if row else None,
            {"name": item.name, "type": declared},
            create=lambda: catalog.create_subject_attribute(**self._who, **asdict(item)),
            update=lambda: catalog.update_subject_attribute(
                actor=self._actor, subject_attribute=row, data={"type": item.type}
            ),
        )

    def _event_type(self, item: Any) -> None:
        parent = self._type(item.parent, "/parent") if item.parent else None
        row = EventType.objects.filter(domain=self._domain, name=item.name).first()
        wanted = {
            **asdict(item),
            "attributes": [
                _attribute(held, f"/attributes/{index}")
                for index, held in enumerate(item.attributes)
            ],
        }
        values = {**asdict(item), "parent": parent}
        self._settle(
            "event type",
            catalog_mapping.event_type(row) if row else None,
            wanted,
            create=lambda: catalog.create_event_type(**self._who, **values),
            update=lambda: catalog.update_event_type(
                actor=self._actor,
                event_type=row,
                data={"parent": parent, "title": item.title, "description": item.description},
                attributes=item.attributes,
            ),
        )

    def _role(self, item: Any) -> None:
        row = Role.objects.filter(domain=self._domain, name=item.name).first()
        self._settle(
            "role",
            role_mapping.role(row) if row else None,
            role_mapping.normal_role(asdict(item)),
            create=lambda: roles.create_role(**self._who, **asdict(item)),
            update=lambda: roles.update_role(
                actor=self._actor, role=row, data={"title": item.title}, rules=item.rules
            ),
        )

    def _principal(self, item: Any) -> None:
        agents = [self._one(Agent, name, "/homes") for name in item.homes]
        row = Principal.objects.filter(domain=self._domain, name=item.name).first()
        if row is not None and row.state == Principal.State.REVOKED:
            # Nobody who was revoked comes back by a file.
            self._report.unchanged += 1
            return
        data = {"name": item.name, "kind": item.kind, "attributes": item.attributes}
        homes = {agent.overlay.name: agent.name for agent in agents}
        held = identity_mapping.principal(row) if row else None
        given = _appointments(row) if row else []
        self._settle(
            "principal",
            {**held, "appointments": given} if held else None,
            {**data, "agents": homes, "appointments": sorted(item.appointments)},
            create=lambda: self._appoint(
                identity.create_principal(**self._who, **data, agents=agents), item
            ),
            update=lambda: self._appoint(
                identity.update_principal(
                    actor=self._actor, principal=row, data=data, agents=agents
                ),
                item,
            ),
        )

    def _appoint(self, row: Principal, item: Any) -> None:
        for name in sorted(set(item.appointments) - set(_appointments(row))):
            roles.appoint(actor=self._actor, principal=row, name=name)

    def _trust_group(self, item: Any) -> None:
        members = [self._one(Agent, name, "/members") for name in item.members]
        keys = [self._one(AttributeKey, name, "/keys", domain=self._domain) for name in item.keys]
        overlay = self._one(Overlay, item.overlay, "/overlay") if item.overlay else None
        row = TrustGroup.objects.filter(domain=self._domain, name=item.name).first()
        wanted = asdict(item)
        self._settle(
            "trust group",
            group_mapping.trust_group(row) if row else None,
            {**wanted, "members": sorted(item.members), "keys": sorted(item.keys)},
            create=lambda: trustgroups.create_trust_group(
                **self._who,
                name=item.name,
                kind=item.kind,
                overlay=overlay,
                members=members,
                keys=keys,
            ),
            update=lambda: trustgroups.update_trust_group(
                actor=self._actor, trust_group=row, members=members, keys=keys
            ),
        )

    def _policy(self, item: Any) -> None:
        row = Policy.objects.filter(domain=self._domain, name=item.name).first()
        listed = None if item.attributes is None else list(item.attributes)
        wanted = {**asdict(item), "attributes": listed}
        self._settle(
            "policy",
            policy_mapping.snapshot(row) if row else None,
            wanted,
            create=lambda: policies.create_policy(**self._who, **wanted),
            update=lambda: policies.update_policy(actor=self._actor, policy=row, data=wanted),
        )

    def _split(self, item: Any) -> None:
        kind = self._type(item.event_type, "/event_type")
        row = SplitPlan.objects.filter(event_type=kind).first()
        groups = [dict(group) for group in item.groups]

        def change() -> None:
            privacy.set_split(actor=self._actor, event_type=kind, groups=groups, active=item.active)

        held = {"name": kind.name, "groups": row.groups, "active": row.active} if row else None
        wanted = {"name": kind.name, "groups": groups, "active": item.active}
        self._settle("split", held, wanted, create=change, update=change)

    # -- helpers -------------------------------------------------------------------------

    @property
    def _who(self) -> dict[str, Any]:
        return {"actor": self._actor, "domain": self._domain}

    def _type(self, name: str, pointer: str) -> EventType:
        return self._one(EventType, name, pointer, domain=self._domain)

    def _one(self, model: Any, name: str, pointer: str, **more: Any) -> Any:
        row = model.objects.filter(name=name, **more).first()
        if row is None:
            kind = model._meta.verbose_name
            raise Invalid.at(pointer, f"there is no {kind} `{name}`", "unknown")
        return row


def _attribute(item: Mapping[str, Any], pointer: str) -> dict[str, Any]:
    """An attribute as the audit's mapping would show it once it is made."""
    declared = catalog_mapping.attribute_type(item.get("type"), f"{pointer}/type").to_json()
    return {
        "name": item.get("name"),
        "type": declared,
        "keys": sorted(item.get("keys", [])),
        "pia_class": item.get("pia_class", _PIA_DEFAULT),
        "pia_reason": item.get("pia_reason", ""),
    }


def _appointments(row: Principal) -> list[str]:
    held = Appointment.objects.filter(principal=row).active()
    return sorted(held.values_list("name", flat=True))
