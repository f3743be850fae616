"""Generations of encodings and of blind keys, with what was made in them."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from adminapp.core.models import Versioned
from adminapp.identity.models import Agent, Domain
from adminapp.identity.querysets import DomainScopedQuerySet


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
    """A wrapped key of an epoch: `agent:<name>` encodes for one agent, `overlay:<name>` tags.

    An agent's key may be replaced, and attributes be given other aliases under it, without a new
    epoch: events carry no encodings. `generation` counts the keys, `aliases` says how often which
    attribute was given another alias.
    """

    epoch = models.ForeignKey(EncodingEpoch, on_delete=models.CASCADE, related_name="keys")
    scope = models.CharField(max_length=80)
    wrapped = models.TextField()
    generation = models.PositiveIntegerField(default=0)
    aliases = models.JSONField(default=dict)

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
