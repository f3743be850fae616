"""What agents and clients hold: epochs, bundles, notices, and what they acknowledged."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.utils import timezone

from adminapp.core import names
from adminapp.core.models import Versioned
from adminapp.identity.models import Agent, Domain, Principal
from adminapp.identity.querysets import DomainScopedQuerySet, SharedQuerySet
from adminapp.trustgroups.models import KeyEpoch


def new_uid() -> str:
    """An identifier that can be shown and guessed by nobody."""
    return uuid.uuid4().hex


class EncodingEpoch(Versioned):
    """One generation of encodings of a domain.

    `state` is what agents hold; `client_state` is what publishers are told. Publishers
    switch after the agents, so for a moment the two differ.
    """

    class State(models.TextChoices):
        PREPARING = "preparing"
        STAGED = "staged"
        CURRENT = "current"
        DRAINING = "draining"
        RETIRED = "retired"

    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="encoding_epochs")
    number = models.PositiveIntegerField()
    state = models.CharField(max_length=16, choices=State, default=State.PREPARING)
    client_state = models.CharField(max_length=16, choices=State, default=State.PREPARING)
    cause = models.CharField(max_length=32)
    parameters = models.JSONField()
    created = models.DateTimeField(default=timezone.now, editable=False)

    objects = DomainScopedQuerySet.as_manager()

    class Meta:
        ordering = ["domain_id", "number"]
        constraints = [
            models.UniqueConstraint(fields=["domain", "number"], name="encoding_epoch_once"),
            models.UniqueConstraint(
                fields=["domain"],
                condition=models.Q(state="current"),
                name="one_current_encoding_epoch",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.domain} encoding epoch {self.number}"


class EncodingKey(models.Model):
    """A wrapped key of an epoch: `agent:<name>` encodes for one agent, `overlay:<name>` tags."""

    epoch = models.ForeignKey(EncodingEpoch, on_delete=models.CASCADE, related_name="keys")
    scope = models.CharField(max_length=80)
    wrapped = models.TextField()

    class Meta:
        ordering = ["epoch_id", "scope"]
        constraints = [models.UniqueConstraint(fields=["epoch", "scope"], name="encoding_key_once")]

    def __str__(self) -> str:
        return f"{self.scope} in {self.epoch}"


class EncodedItem(models.Model):
    """One conjunction, encoded for one agent in one epoch; kept so that it stays the same."""

    class Kind(models.TextChoices):
        SUBJECT = "subject"
        RULE = "rule"

    epoch = models.ForeignKey(EncodingEpoch, on_delete=models.CASCADE, related_name="items")
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=8, choices=Kind)
    key = models.CharField(max_length=120)
    position = models.PositiveIntegerField(default=0)
    encoded = models.BinaryField()
    tokens_hash = models.CharField(max_length=64)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["epoch", "agent", "kind", "key", "position"], name="encoded_item_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.key} {self.position}"


class BlindEpoch(Versioned):
    """One generation of the keys of a domain's blind profiles; its master is kept wrapped.

    `state` is what agents hold; `client_state` is what publishers are told; `scheme` is who
    compares order-preserving ciphertexts. `due` says why another epoch is to follow: somebody who
    could read no longer may, or a person asked for it.
    """

    State = EncodingEpoch.State

    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="blind_epochs")
    number = models.PositiveIntegerField()
    state = models.CharField(max_length=16, choices=State, default=State.PREPARING)
    client_state = models.CharField(max_length=16, choices=State, default=State.PREPARING)
    cause = models.CharField(max_length=32)
    wrapped = models.TextField(blank=True)
    public = models.TextField(blank=True)
    scheme = models.CharField(max_length=8, default="sbm1")
    due = models.CharField(max_length=200, blank=True)
    created = models.DateTimeField(default=timezone.now, editable=False)

    objects = DomainScopedQuerySet.as_manager()

    class Meta:
        ordering = ["domain_id", "number"]
        constraints = [
            models.UniqueConstraint(fields=["domain", "number"], name="blind_epoch_once"),
            models.UniqueConstraint(
                fields=["domain"],
                condition=models.Q(state="current"),
                name="one_current_blind_epoch",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.domain} blind epoch {self.number}"


class BlindKey(models.Model):
    """What the authority sealed for one audience; kept so that it stays the same.

    Nobody but the audience can open it. `wanted` says what it was made for; `tokens` are digests
    of what a client reads by, a list a variant.
    """

    class Kind(models.TextChoices):
        CLIENT = "client"
        SHARE = "share"
        ORDER = "order"

    epoch = models.ForeignKey(BlindEpoch, on_delete=models.CASCADE, related_name="keys")
    kind = models.CharField(max_length=8, choices=Kind)
    audience = models.CharField(max_length=80)
    name = models.CharField(max_length=200)
    wanted = models.CharField(max_length=64)
    tokens = models.JSONField(default=list)
    sealed = models.BinaryField()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["epoch", "kind", "audience", "name"], name="blind_key_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.name} for {self.audience}"


class Comparator(Versioned):
    """A process beside agents that opens what they compare; it gets the keys of its domains.

    Keys are public ones, base64url without padding.
    """

    name = models.CharField(max_length=64, unique=True, validators=[names.slug])
    sealing_key = models.CharField(max_length=64)
    verify_key = models.CharField(max_length=64)
    domains = models.ManyToManyField(Domain, related_name="comparators")
    registered_at = models.DateTimeField(default=timezone.now, editable=False)

    objects = SharedQuerySet.as_manager()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Bundle(Versioned):
    """One sealed message for one audience, and how far it got."""

    class State(models.TextChoices):
        BUILT = "built"
        SENT = "sent"
        RECEIVED = "received"
        APPLIED = "applied"
        REJECTED = "rejected"
        SUPERSEDED = "superseded"

    audience = models.CharField(max_length=80)
    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="bundles")
    revision = models.PositiveBigIntegerField()
    digest = models.CharField(max_length=64)
    content_hash = models.CharField(max_length=64, blank=True)
    size = models.PositiveIntegerField()
    message = models.BinaryField()
    state = models.CharField(max_length=16, choices=State, default=State.BUILT)
    reason = models.CharField(max_length=64, blank=True)
    built_at = models.DateTimeField(default=timezone.now)
    sent_at = models.DateTimeField(null=True, blank=True)
    acknowledged_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField()

    objects = DomainScopedQuerySet.as_manager()

    class Meta:
        ordering = ["domain_id", "audience", "revision"]
        indexes = [models.Index(fields=["state", "audience"])]
        constraints = [
            models.UniqueConstraint(
                fields=["audience", "domain", "revision"], name="one_bundle_per_revision"
            )
        ]

    def __str__(self) -> str:
        return f"{self.audience} {self.domain} revision {self.revision}"


class Compilation(models.Model):
    """The newest revision of a domain of which every bundle was made."""

    domain = models.OneToOneField(Domain, on_delete=models.CASCADE, related_name="compilation")
    revision = models.PositiveBigIntegerField(default=0)
    at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return f"{self.domain} up to {self.revision}"


class Recipient(Versioned):
    """What an audience last said, signed, that it holds; and what its leases must demand."""

    class State(models.TextChoices):
        SILENT = "silent"
        APPLIED = "applied"
        REJECTED = "rejected"
        BEHIND = "behind"

    audience = models.CharField(max_length=80)
    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="recipients")
    revision = models.PositiveBigIntegerField(default=0)
    digest = models.CharField(max_length=64, blank=True)
    notice = models.PositiveBigIntegerField(default=0)
    epochs = models.JSONField(default=dict)
    state = models.CharField(max_length=16, choices=State, default=State.SILENT)
    reason = models.CharField(max_length=64, blank=True)
    last_seen = models.DateTimeField(null=True, blank=True)
    reported_at = models.BigIntegerField(default=0)
    minimum_revision = models.PositiveBigIntegerField(default=0)
    leased_until = models.DateTimeField(null=True, blank=True)

    objects = DomainScopedQuerySet.as_manager()

    class Meta:
        ordering = ["audience", "domain_id"]
        constraints = [
            models.UniqueConstraint(fields=["audience", "domain"], name="recipient_once")
        ]

    def __str__(self) -> str:
        return f"{self.audience} of {self.domain}"


class Rollout(Versioned):
    """The change from one set of epochs to the next, in stages that agents acknowledge."""

    class State(models.TextChoices):
        RECOMPUTING = "recomputing"
        STAGING = "staging"
        SWITCHING = "switching"
        DRAINING = "draining"
        RETIRING = "retiring"
        COMPLETE = "complete"

    ENDED = (State.COMPLETE,)

    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="rollouts")
    cause = models.CharField(max_length=32)
    state = models.CharField(max_length=16, choices=State, default=State.RECOMPUTING)
    epoch_from = models.ForeignKey(
        EncodingEpoch, null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    epoch_to = models.ForeignKey(
        EncodingEpoch, null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    key_epochs = models.ManyToManyField(KeyEpoch, blank=True, related_name="+")
    blind_from = models.ForeignKey(
        BlindEpoch, null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    blind_to = models.ForeignKey(
        BlindEpoch, null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    stage_revision = models.PositiveBigIntegerField(default=0)
    stage_started = models.DateTimeField(default=timezone.now)
    created = models.DateTimeField(default=timezone.now, editable=False)
    completed = models.DateTimeField(null=True, blank=True)

    objects = DomainScopedQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["domain"],
                condition=~models.Q(state="complete"),
                name="one_running_rollout",
            )
        ]

    def __str__(self) -> str:
        return f"rollout {self.pk} of {self.domain}"


class RolloutMember(models.Model):
    """How one audience went through a rollout, for the receipt."""

    rollout = models.ForeignKey(Rollout, on_delete=models.CASCADE, related_name="members")
    audience = models.CharField(max_length=80)
    staged_at = models.DateTimeField(null=True, blank=True)
    switched_at = models.DateTimeField(null=True, blank=True)
    retired_at = models.DateTimeField(null=True, blank=True)
    skipped_in = models.CharField(max_length=16, blank=True)

    class Meta:
        ordering = ["audience"]
        constraints = [
            models.UniqueConstraint(fields=["rollout", "audience"], name="rollout_member_once")
        ]

    def __str__(self) -> str:
        return f"{self.audience} in {self.rollout}"


class Revocation(Versioned):
    """The end of a principal's rights, from the notice to the signed receipt."""

    class State(models.TextChoices):
        NOTICED = "noticed"
        RECOMPUTING = "recomputing"
        STAGING = "staging"
        SWITCHING = "switching"
        DRAINING = "draining"
        COMPLETE = "complete"
        FAILED = "failed"

    uid = models.CharField(max_length=32, unique=True, default=new_uid, editable=False)
    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="revocations")
    principal = models.ForeignKey(Principal, on_delete=models.CASCADE, related_name="revocations")
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    reason = models.TextField()
    state = models.CharField(max_length=16, choices=State, default=State.NOTICED)
    rollout = models.ForeignKey(
        Rollout, null=True, blank=True, on_delete=models.SET_NULL, related_name="revocations"
    )
    created = models.DateTimeField(default=timezone.now, editable=False)
    epoch_from = models.PositiveIntegerField(null=True, blank=True)
    epoch_to = models.PositiveIntegerField(null=True, blank=True)
    receipt = models.JSONField(null=True, blank=True)
    completed = models.DateTimeField(null=True, blank=True)

    objects = DomainScopedQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"revocation of {self.principal}"


class RevocationEvent(models.Model):
    """One thing that happened in a revocation, for the live timeline."""

    revocation = models.ForeignKey(Revocation, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField(default=timezone.now)
    kind = models.CharField(max_length=32)
    detail = models.JSONField(default=dict)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.kind} at {self.at}"


class Notice(Versioned):
    """A numbered, sealed denial for one audience."""

    class State(models.TextChoices):
        BUILT = "built"
        SENT = "sent"
        APPLIED = "applied"
        REJECTED = "rejected"

    audience = models.CharField(max_length=80)
    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="notices")
    number = models.PositiveBigIntegerField()
    revocation = models.ForeignKey(Revocation, on_delete=models.CASCADE, related_name="notices")
    message = models.BinaryField(null=True)
    state = models.CharField(max_length=16, choices=State, default=State.BUILT)
    sent_at = models.DateTimeField(null=True, blank=True)
    acknowledged_at = models.DateTimeField(null=True, blank=True)

    objects = DomainScopedQuerySet.as_manager()

    class Meta:
        ordering = ["domain_id", "audience", "number"]
        constraints = [
            models.UniqueConstraint(
                fields=["audience", "domain", "number"], name="notice_number_once"
            )
        ]

    def __str__(self) -> str:
        return f"notice {self.number} for {self.audience}"


class RecomputeJob(Versioned):
    """A run over all encodings of a new epoch, with its progress."""

    class State(models.TextChoices):
        PENDING = "pending"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"

    uid = models.CharField(max_length=32, unique=True, default=new_uid, editable=False)
    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="recompute_jobs")
    epoch = models.ForeignKey(EncodingEpoch, on_delete=models.CASCADE, related_name="jobs")
    cause = models.CharField(max_length=32)
    state = models.CharField(max_length=16, choices=State, default=State.PENDING)
    stages = models.JSONField(default=list)
    rows_done = models.PositiveBigIntegerField(default=0)
    rows_total = models.PositiveBigIntegerField(default=0)
    attempts = models.PositiveIntegerField(default=0)
    heartbeat = models.DateTimeField(null=True, blank=True)
    started = models.DateTimeField(null=True, blank=True)
    finished = models.DateTimeField(null=True, blank=True)
    error = models.TextField(blank=True)

    objects = DomainScopedQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"recompute {self.uid}"
