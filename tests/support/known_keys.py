"""Clients of whom tests say what they were given."""

from __future__ import annotations

from adminapp.distribution.models import Recipient
from adminapp.identity.models import Principal
from policyengine.bundles.addresses import audience

_EVERY_EPOCH = 2**30


def held_tag_keys(name: str) -> Principal:
    """Give a principal that could once publish: the end of its rights asks for a new epoch.

    Tests of what a new epoch brings with it end the rights of customers all the same, whom
    events are for.
    """
    principal = Principal.objects.get(name=name)
    Recipient.objects.update_or_create(
        audience=audience("client", principal.handle),
        domain=principal.domain,
        defaults={"tag_epoch": _EVERY_EPOCH},
    )
    return principal
