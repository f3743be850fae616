"""The area's writes, in one place to import from."""

from adminapp.distribution.aliases import burn as burn_alias
from adminapp.distribution.comparators import register as register_comparator
from adminapp.distribution.comparators import remove as remove_comparator
from adminapp.distribution.compile import compile_domain, rebuild
from adminapp.distribution.delivery import (
    Parcel,
    bundle_parcels,
    bundles_sent,
    notice_parcels,
    notices_sent,
    unsent_bundles,
    unsent_notices,
)
from adminapp.distribution.filterrequests import answer_parcel as filter_answer
from adminapp.distribution.recall import recall
from adminapp.distribution.requests import answer_request, answer_requests
from adminapp.distribution.revocation import (
    advance_all,
    advance_domain,
    advance_revocation,
)
from adminapp.distribution.rolloutplans import abort_rollout, continue_rollout, set_plan
from adminapp.distribution.rollouts import advance as advance_rollout
from adminapp.distribution.rollouts import begin as begin_rollout
from adminapp.distribution.rollouts import rotate_blind_keys
from adminapp.distribution.rotation import remove_schedule, run_due, set_schedule
from adminapp.distribution.starting import revoke, revoke_agent, revoke_principal
from adminapp.distribution.upkeep import (
    apply_boundaries,
    apply_due,
    prune,
    reconcile,
    renew_expiring,
    resume_after_loss,
)

__all__ = [
    "Parcel",
    "abort_rollout",
    "advance_all",
    "advance_domain",
    "advance_revocation",
    "advance_rollout",
    "answer_request",
    "answer_requests",
    "apply_boundaries",
    "apply_due",
    "begin_rollout",
    "bundle_parcels",
    "bundles_sent",
    "burn_alias",
    "compile_domain",
    "continue_rollout",
    "filter_answer",
    "notice_parcels",
    "notices_sent",
    "prune",
    "rebuild",
    "recall",
    "reconcile",
    "register_comparator",
    "remove_comparator",
    "remove_schedule",
    "renew_expiring",
    "resume_after_loss",
    "revoke",
    "revoke_agent",
    "revoke_principal",
    "rotate_blind_keys",
    "run_due",
    "set_plan",
    "set_schedule",
    "unsent_bundles",
    "unsent_notices",
]
