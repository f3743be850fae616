"""New keys for what a banned agent was given."""

from __future__ import annotations

from django.db.models import Max

from adminapp.core.authority import get_authority
from adminapp.distribution.models import Bundle
from adminapp.identity.models import Agent
from adminapp.trustgroups.models import KeyEpoch
from adminapp.trustgroups.selectors import group_refs
from adminapp.trustgroups.services import stage_epoch
from policyengine.bundles.addresses import audience


def rekey(agent: Agent) -> int:
    """Stage new keys where this banned agent was given the current ones; returns how many.

    All attribute keys of the domain and its overlay's hop key: which of them it held is no longer
    told by its memberships once somebody tidied them up.
    """
    count = 0
    given = Bundle.objects.filter(audience=audience("agent", agent.name)).order_by()
    for row in given.values("domain_id").annotate(last=Max("built_at")):
        known = KeyEpoch.objects.filter(
            domain_id=row["domain_id"], state=KeyEpoch.State.CURRENT, created__lte=row["last"]
        ).select_related("domain")
        for epoch in known:
            if epoch.group_ref.startswith("key:") or epoch.group_ref == (
                f"overlay:{agent.overlay.name}"
            ):
                count += _stage(epoch)
    return count


def _stage(epoch: KeyEpoch) -> bool:
    staged = KeyEpoch.objects.filter(
        domain=epoch.domain, group_ref=epoch.group_ref, state=KeyEpoch.State.STAGED
    )
    if staged.exists() or epoch.group_ref not in group_refs(epoch.domain):
        return False
    stage_epoch(
        actor=None, domain=epoch.domain, group_ref=epoch.group_ref, authority=get_authority()
    )
    return True
