"""From a chain of hashes to the leaves of a Merkle tree: what goes, and what must hold."""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Q

SOURCES = ("console", "api", "file", "command", "system")


class Migration(migrations.Migration):
    dependencies = [("audit", "0003_leaves")]

    operations = [
        migrations.RemoveField("Entry", "previous_hash"),
        migrations.RemoveField("Entry", "actor_name"),
        migrations.AlterField(
            "Entry",
            "actor",
            models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="entries",
                to="audit.actor",
            ),
        ),
        migrations.AddIndex("Entry", models.Index(fields=["at"], name="audit_entry_at")),
        migrations.AddIndex(
            "Entry",
            models.Index(
                condition=Q(("change_set__isnull", False)),
                fields=["change_set"],
                name="audit_entry_change_set",
            ),
        ),
        migrations.AddConstraint(
            "Entry",
            models.CheckConstraint(
                condition=Q(("source__in", SOURCES)), name="audit_entry_source_known"
            ),
        ),
        migrations.AddConstraint(
            "Entry",
            models.CheckConstraint(
                condition=Q(("sequence__gte", 1)), name="audit_entry_counts_from_one"
            ),
        ),
        migrations.AddConstraint(
            "Entry",
            models.CheckConstraint(
                condition=Q(("person__isnull", True), ("sealed__isnull", True))
                | Q(
                    ("open_after__isnull", True),
                    ("open_before__isnull", True),
                    ("open_name", ""),
                    ("person__isnull", False),
                    ("sealed__isnull", False),
                ),
                name="audit_entry_open_or_sealed",
            ),
        ),
    ]
