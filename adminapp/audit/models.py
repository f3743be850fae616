"""Who did what: entries that are only ever added, the leaves of a Merkle tree."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.db import models
from django.db.models import Q

from adminapp.audit import keys
from adminapp.core import canonical
from adminapp.core.models import CanonicalJSONField
from policyengine.errors import DecryptionError

SOURCES = ("console", "api", "file", "command", "system")
ERASED = "[erased]"
UNREADABLE = "[unreadable]"


class Actor(models.Model):
    """Who makes changes. Entries carry the pseudonym, which commits to the name.

    Without salt and name, which erasing destroys, the pseudonym says nothing; with them it
    proves that the name is the one that was written.
    """

    pseudonym = models.CharField(max_length=64, unique=True)
    user_id = models.PositiveBigIntegerField(default=0)
    name = models.CharField(max_length=150, blank=True)
    salt = models.BinaryField(null=True)
    erased_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["user_id", "name"],
                condition=Q(erased_at__isnull=True),
                name="audit_actor_name_once",
            ),
            models.CheckConstraint(
                condition=Q(erased_at__isnull=True, salt__isnull=False)
                | Q(erased_at__isnull=False, salt__isnull=True, name=""),
                name="audit_actor_known_or_erased",
            ),
        ]

    def __str__(self) -> str:
        return ERASED if self.erased_at else self.name


class Person(models.Model):
    """Whom entries speak of. The salt is half of the key to them: without it they stay closed."""

    pseudonym = models.CharField(max_length=64, unique=True)
    salt = models.BinaryField(null=True)
    erased_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.CheckConstraint(
                condition=Q(erased_at__isnull=True, salt__isnull=False)
                | Q(erased_at__isnull=False, salt__isnull=True),
                name="audit_person_known_or_erased",
            ),
        ]

    def __str__(self) -> str:
        return self.pseudonym


@dataclass(frozen=True)
class Content:
    """The part of an entry that may be personal: what it is called, and its documents."""

    object_name: str
    before: Any
    after: Any


class EntryManager(models.Manager["Entry"]):
    def get_queryset(self) -> models.QuerySet[Entry]:
        return super().get_queryset().select_related("actor", "person")


class Entry(models.Model):
    """One change. Names, not foreign keys: an entry outlives what it speaks of.

    Entries about a person keep their content in `sealed`, the others in the `open_` fields; read
    it through `object_name`, `before` and `after`.
    """

    sequence = models.PositiveBigIntegerField(unique=True)
    at = models.DateTimeField()
    actor = models.ForeignKey(Actor, on_delete=models.PROTECT, related_name="entries")
    source = models.CharField(max_length=16, choices=[(name, name) for name in SOURCES])
    change_set = models.PositiveBigIntegerField(null=True)
    action = models.CharField(max_length=64)
    domain_name = models.CharField(max_length=64, blank=True)
    object_type = models.CharField(max_length=64)
    object_id = models.CharField(max_length=64)
    open_name = models.CharField(max_length=200, blank=True)
    open_before = CanonicalJSONField(null=True)
    open_after = CanonicalJSONField(null=True)
    person = models.ForeignKey(Person, null=True, on_delete=models.PROTECT, related_name="entries")
    sealed = models.BinaryField(null=True)
    leaf = models.CharField(max_length=64)
    seal = models.CharField(max_length=64)

    objects = EntryManager()

    class Meta:
        ordering = ["sequence"]
        verbose_name_plural = "entries"
        indexes = [
            models.Index(fields=["domain_name", "sequence"]),
            models.Index(fields=["object_type", "object_id"]),
            models.Index(fields=["at"], name="audit_entry_at"),
            models.Index(
                fields=["change_set"],
                condition=Q(change_set__isnull=False),
                name="audit_entry_change_set",
            ),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(source__in=SOURCES), name="audit_entry_source_known"
            ),
            models.CheckConstraint(
                condition=Q(sequence__gte=1), name="audit_entry_counts_from_one"
            ),
            models.CheckConstraint(
                condition=Q(person__isnull=True, sealed__isnull=True)
                | Q(
                    person__isnull=False,
                    sealed__isnull=False,
                    open_name="",
                    open_before__isnull=True,
                    open_after__isnull=True,
                ),
                name="audit_entry_open_or_sealed",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.sequence}: {self.actor} {self.action} {self.object_name}"

    @property
    def actor_name(self) -> str:
        return str(self.actor)

    @property
    def erased(self) -> bool:
        """Whether the person it speaks of was erased, and its content with it."""
        return self.person is not None and self.person.salt is None

    @property
    def object_name(self) -> str:
        return self.content.object_name

    @property
    def before(self) -> Any:
        return self.content.before

    @property
    def after(self) -> Any:
        return self.content.after

    @cached_property
    def content(self) -> Content:
        if self.person is None:
            return Content(self.open_name, self.open_before, self.open_after)
        if self.person.salt is None:
            return Content(ERASED, None, None)
        key = keys.of_person(self.person.pseudonym, bytes(self.person.salt))
        try:
            text = keys.open_content(key, self.sequence, bytes(self.sealed or b""))
        except DecryptionError:
            return Content(UNREADABLE, None, None)
        return Content(*canonical.loads(text))


class TreeHead(models.Model):
    """The end of the log, in one row: who adds an entry locks it.

    `peaks` are the roots of the complete sub-trees, as hexadecimal digits one after the other.
    """

    size = models.PositiveBigIntegerField(default=0)
    root = models.CharField(max_length=64, blank=True)
    peaks = models.TextField(blank=True)
    key_id = models.CharField(max_length=8, blank=True)
    seal = models.CharField(max_length=64, blank=True)

    def __str__(self) -> str:
        return f"log of {self.size} entries"


class TreeNode(models.Model):
    """The root of a complete sub-tree of 256, 65536, ... entries; lower ones are computed."""

    level = models.PositiveSmallIntegerField()
    place = models.PositiveBigIntegerField()
    hash = models.CharField(max_length=64)

    class Meta:
        ordering = ["level", "place"]
        constraints = [
            models.UniqueConstraint(fields=["level", "place"], name="audit_tree_node_once"),
            models.CheckConstraint(condition=Q(level__gte=1), name="audit_tree_node_is_inner"),
        ]

    def __str__(self) -> str:
        return f"node {self.place} of level {self.level}"


class Checkpoint(models.Model):
    """What the trusted authority signed about the log; the note holds all of it."""

    size = models.PositiveBigIntegerField(unique=True)
    root = models.CharField(max_length=64)
    at = models.DateTimeField()
    note = models.TextField()

    class Meta:
        ordering = ["size"]

    def __str__(self) -> str:
        return f"checkpoint at {self.size}"
