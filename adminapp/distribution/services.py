"""The area's writes, in one place to import from."""

from adminapp.distribution.comparators import register as register_comparator
from adminapp.distribution.comparators import remove as remove_comparator
from adminapp.distribution.compile import compile_domain, rebuild
from adminapp.distribution.delivery import (
    Parcel,
    bundle_parcel,
    bundle_sent,
    notice_parcel,
    notice_sent,
)
from adminapp.distribution.requests import answer_request
from adminapp.distribution.revocation import (
    advance_all,
    advance_domain,
    advance_revocation,
    revoke_principal,
)
from adminapp.distribution.rollouts import advance as advance_rollout
from adminapp.distribution.rollouts import begin as begin_rollout
from adminapp.distribution.rollouts import rotate_blind_keys
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
    "advance_all",
    "advance_domain",
    "advance_revocation",
    "advance_rollout",
    "answer_request",
    "apply_boundaries",
    "apply_due",
    "begin_rollout",
    "bundle_parcel",
    "bundle_sent",
    "compile_domain",
    "notice_parcel",
    "notice_sent",
    "prune",
    "rebuild",
    "reconcile",
    "register_comparator",
    "remove_comparator",
    "renew_expiring",
    "resume_after_loss",
    "revoke_principal",
    "rotate_blind_keys",
]
