"""Webhooks as what the audit keeps of them."""

from __future__ import annotations

from typing import Any

from adminapp.webhooks.models import Webhook


def webhook(row: Webhook) -> dict[str, Any]:
    return {
        "name": row.name,
        "url": row.url,
        "events": row.events,
        "enabled": row.enabled,
    }
