"""What is remembered of what was built, so that the next bundle says only what changed."""

from __future__ import annotations

from django.db import models

from adminapp.distribution.models.bundles import Bundle
from adminapp.identity.models import Domain


class ContentOutline(models.Model):
    """Hashes of the entries of the content that was built last for an audience; no content.

    `digest` names the bundle that it was built into.
    """

    audience = models.CharField(max_length=80)
    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="outlines")
    digest = models.CharField(max_length=64)
    entries = models.BinaryField()

    class Meta:
        ordering = ["audience", "domain_id"]
        constraints = [
            models.UniqueConstraint(fields=["audience", "domain"], name="one_outline_per_audience")
        ]

    def __str__(self) -> str:
        return f"{self.audience} of {self.domain}"


class BundleChunk(models.Model):
    """A sealed piece of a bundle that is too large for one message; its row holds the manifest."""

    bundle = models.ForeignKey(Bundle, on_delete=models.CASCADE, related_name="chunks")
    number = models.PositiveSmallIntegerField()
    message = models.BinaryField()

    class Meta:
        ordering = ["bundle_id", "number"]
        constraints = [
            models.UniqueConstraint(fields=["bundle", "number"], name="one_chunk_per_number")
        ]

    def __str__(self) -> str:
        return f"piece {self.number} of {self.bundle}"


class SealedWrap(models.Model):
    """A group's key as the authority sealed it for one agent, the same until either changes."""

    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="sealed_wraps")
    audience = models.CharField(max_length=80)
    group = models.CharField(max_length=128)
    epoch = models.PositiveBigIntegerField()
    wanted = models.CharField(max_length=64)
    sealed = models.BinaryField()

    class Meta:
        ordering = ["domain_id", "audience", "group", "epoch"]
        constraints = [
            models.UniqueConstraint(
                fields=["domain", "audience", "group", "epoch"], name="one_wrap_per_audience"
            )
        ]

    def __str__(self) -> str:
        return f"{self.group} of epoch {self.epoch} for {self.audience}"
