"""How roles count in a domain."""

from __future__ import annotations

from adminapp.audit import services as audit
from adminapp.core import versions
from adminapp.core.errors import Invalid
from adminapp.identity import permissions
from adminapp.identity.models import Domain, User
from adminapp.identity.services import record_row
from adminapp.roles import mapping
from adminapp.roles.models import RoleSettings


@audit.change
def set_role_settings(
    *,
    actor: User | None,
    domain: Domain,
    by_session: bool,
    expected_version: int | None = None,
) -> RoleSettings:
    """Have only roles that are active in an open session count in a domain, or every role that
    could be activated.
    """
    permissions.require_manager(actor, domain)
    if not isinstance(by_session, bool):
        raise Invalid.at("/by_session", "this is true or false", "type")
    held = RoleSettings.objects.filter(domain=domain).first()
    row = versions.locked(held or versions.create(RoleSettings(domain=domain)), expected_version)
    before = mapping.settings(row)
    row.by_session = by_session
    versions.save(row)
    after = mapping.settings(row)
    record_row(actor, domain, "role-settings.updated", row, key="roles", before=before, after=after)
    return row
