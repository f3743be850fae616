"""What an agent's page says of its bundles: everything or what changed, how large, which pieces."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from adminapp.distribution.models import Bundle, BundleChunk
from tests.support.control_plane import World

pytestmark = pytest.mark.django_db


def bundle(world: World, revision: int, form: str, size: int) -> Bundle:
    return Bundle.objects.create(
        audience="agent:alpha",
        domain=world.flights,
        revision=revision,
        digest=f"{revision:064}",
        form=form,
        size=size,
        message=b"sealed",
        expires_at=timezone.now() + timedelta(days=1),
    )


def test_bundles_say_what_they_are(world: World, browsers: dict[str, Client]) -> None:
    large = bundle(world, 7, "whole", 20 * 2**20)
    bundle(world, 8, "delta", 3 * 2**10)
    for number in range(3):
        BundleChunk.objects.create(bundle=large, number=number, message=b"piece")
    page = browsers["auditor"].get("/agents/alpha/").content.decode()
    page = page.split("<main", 1)[1]
    newer, older = (page.index(f"<td>{text}") for text in ("what changed", "everything"))
    assert newer < page.index("3.0\xa0KB") < older < page.index("20.0\xa0MB")
    assert page.count("in 3 pieces") == page.count(" pieces</span>") == 1
    assert "what changed" not in browsers["stranger"].get("/agents/alpha/").content.decode()
