"""Reads of webhooks and of what was sent to them."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet

from adminapp.webhooks.models import Delivery, Webhook


def webhooks(user: Any) -> QuerySet[Webhook]:
    """Those of the domains that a user may see; their secrets stay where they are."""
    found = Webhook.objects.visible_to(user).select_related("domain", "created_by")
    return found.defer("secret")


def deliveries(user: Any, webhook: Webhook) -> QuerySet[Delivery]:
    return Delivery.objects.visible_to(user).filter(webhook=webhook).order_by("-number")
