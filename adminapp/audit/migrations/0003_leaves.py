"""Every entry of the chain becomes a leaf of the tree; the other way chains them again.

The chain is checked before it goes: a broken one must be looked into with the release that wrote
it. What was sealed about persons since is opened on the way back, as far as they were not erased.
"""

import hashlib
from datetime import UTC

from django.db import migrations

from adminapp.audit import keys, tree
from adminapp.core import canonical
from policyengine.primitives.canonical import b64
from policyengine.primitives.merkle import Frontier, leaf_hash

CHAINED = ("sequence", "actor_name", "action", "domain_name", "object_type", "object_id")
BATCH = 1000


def chain_hash(entry, content, previous):
    """What the release before this one hashed."""
    body = {name: getattr(entry, name) for name in CHAINED}
    body["object_name"], body["before"], body["after"] = content
    body["previous_hash"] = previous
    body["at"] = entry.at.astimezone(UTC).isoformat(timespec="microseconds")
    return hashlib.sha256(canonical.dumps(body).encode()).hexdigest()


def leaf(entry, pseudonym):
    """Format 1 of a leaf, for an entry about nobody."""
    at = entry.at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    body = {
        "format": 1,
        "sequence": entry.sequence,
        "at": at,
        "actor": pseudonym,
        "source": entry.source,
        "change_set": None,
        "action": entry.action,
        "domain": entry.domain_name,
        "object_type": entry.object_type,
        "object_id": entry.object_id,
        "object_name": entry.open_name,
        "before": entry.open_before,
        "after": entry.open_after,
        "person": None,
        "sealed": None,
    }
    return leaf_hash(canonical.dumps(body).encode())


def opened(entry):
    """Name and documents of an entry, whether open or sealed."""
    if entry.person is None:
        return entry.open_name, entry.open_before, entry.open_after
    if entry.person.salt is None:
        return "[erased]", None, None
    key = keys.of_person(entry.person.pseudonym, bytes(entry.person.salt))
    return tuple(canonical.loads(keys.open_content(key, entry.sequence, bytes(entry.sealed))))


def batches(rows):
    """All entries in order, without holding them all."""
    last = 0
    while batch := list(rows.filter(sequence__gt=last).order_by("sequence")[:BATCH]):
        yield batch
        last = batch[-1].sequence


def plant(apps, _schema_editor):
    Entry, TreeHead = apps.get_model("audit", "Entry"), apps.get_model("audit", "TreeHead")
    head = TreeHead.objects.first()
    if head is None:
        return
    planting = Planting(apps)
    for batch in batches(Entry.objects.all()):
        for entry in batch:
            planting.add(entry)
        fields = ["actor", "leaf", "seal"]
        Entry.objects.bulk_update(batch, fields, batch_size=100)
    frontier = planting.frontier
    if (head.size, head.root) != (frontier.size, planting.previous):
        raise planting.broken(head.size)
    root = frontier.root()
    head.root, head.peaks = root.hex(), b"".join(frontier.peaks).hex()
    head.key_id, head.seal = keys.key_id(), keys.seal_head(frontier.size, root)
    head.save()


class Planting:
    """The tree while it grows."""

    def __init__(self, apps):
        self.actors = apps.get_model("audit", "Actor").objects
        self.nodes = apps.get_model("audit", "TreeNode").objects
        # Names have had no number of a user's account yet.
        self.known = {}
        self.frontier = Frontier()
        self.previous = ""

    def add(self, entry):
        content = (entry.open_name, entry.open_before, entry.open_after)
        hashed = chain_hash(entry, content, self.previous)
        in_order = entry.sequence == self.frontier.size + 1
        if not in_order or entry.previous_hash != self.previous or entry.leaf != hashed:
            raise self.broken(entry.sequence)
        self.previous = hashed
        entry.actor = self.actor(entry.actor_name)
        made = leaf(entry, entry.actor.pseudonym)
        entry.leaf, entry.seal = made.hex(), keys.seal_entry(entry.sequence, made)
        for node in tree.stored(self.frontier.append(made)):
            self.nodes.create(level=node.level, place=node.place, hash=node.hash)

    def actor(self, name):
        if name not in self.known:
            salt = keys.new_salt()
            self.known[name] = self.actors.create(
                name=name, salt=salt, pseudonym=keys.pseudonym(salt, name, 0)
            )
        return self.known[name]

    def broken(self, number):
        return RuntimeError(
            f"the audit is broken at entry {number}; look into it with `manage.py verify_audit` of "
            "the release before this one"
        )


def chain(apps, _schema_editor):
    Entry, TreeHead = apps.get_model("audit", "Entry"), apps.get_model("audit", "TreeHead")
    previous = ""
    for batch in batches(Entry.objects.select_related("actor", "person")):
        for entry in batch:
            entry.actor_name = "[erased]" if entry.actor.erased_at else entry.actor.name
            content = opened(entry)
            entry.open_name, entry.open_before, entry.open_after = content
            entry.person = entry.sealed = None
            entry.previous_hash = previous
            entry.leaf = previous = chain_hash(entry, content, previous)
        fields = ["actor_name", "open_name", "open_before", "open_after", "person", "sealed"]
        Entry.objects.bulk_update(batch, [*fields, "previous_hash", "leaf"], batch_size=50)
    TreeHead.objects.update(root=previous)
    for name in ("Checkpoint", "TreeNode"):
        apps.get_model("audit", name).objects.all().delete()


class Migration(migrations.Migration):
    dependencies = [("audit", "0002_log")]
    operations = [migrations.RunPython(plant, chain)]
