"""The area's writes, in one place to import from.

`record_change` is the way of every other area into audit, revision and outbox.
"""

from adminapp.identity.delegations import delegate, end_delegation
from adminapp.identity.erasure import erase_principal
from adminapp.identity.imports import (
    cancel_import,
    prune_imports,
    run_import,
    start_import,
)
from adminapp.identity.people import (
    create_user,
    deactivate_user,
    issue_token,
    note_token_use,
    remove_membership,
    revoke_token,
    set_membership,
    set_password,
)
from adminapp.identity.platform import (
    create_domain,
    create_overlay,
    delete_domain,
    delete_overlay,
    register_agent,
    set_agent_state,
    update_agent,
    update_domain,
    update_overlay,
)
from adminapp.identity.principals import (
    clear_credentials,
    create_principal,
    delete_principal,
    mark_revoked,
    register_credentials,
    update_principal,
    withdraw_attribute,
)
from adminapp.identity.recording import (
    record_change,
    record_row,
)

__all__ = [
    "cancel_import",
    "clear_credentials",
    "create_domain",
    "create_overlay",
    "create_principal",
    "create_user",
    "deactivate_user",
    "delegate",
    "delete_domain",
    "delete_overlay",
    "delete_principal",
    "end_delegation",
    "erase_principal",
    "issue_token",
    "mark_revoked",
    "note_token_use",
    "prune_imports",
    "record_change",
    "record_row",
    "register_agent",
    "register_credentials",
    "remove_membership",
    "revoke_token",
    "run_import",
    "set_agent_state",
    "set_membership",
    "set_password",
    "start_import",
    "update_agent",
    "update_domain",
    "update_overlay",
    "update_principal",
    "withdraw_attribute",
]
