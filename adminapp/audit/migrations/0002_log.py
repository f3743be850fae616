"""From a chain of hashes to the leaves of a Merkle tree: what comes new."""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Q

SOURCES = ("console", "api", "file", "command", "system")


class Migration(migrations.Migration):
    dependencies = [("audit", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="Actor",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("pseudonym", models.CharField(max_length=64, unique=True)),
                ("user_id", models.PositiveBigIntegerField(default=0)),
                ("name", models.CharField(blank=True, max_length=150)),
                ("salt", models.BinaryField(null=True)),
                ("erased_at", models.DateTimeField(null=True)),
            ],
            options={
                "ordering": ["pk"],
                "constraints": [
                    models.UniqueConstraint(
                        condition=Q(("erased_at__isnull", True)),
                        fields=("user_id", "name"),
                        name="audit_actor_name_once",
                    ),
                    models.CheckConstraint(
                        condition=Q(("erased_at__isnull", True), ("salt__isnull", False))
                        | Q(("erased_at__isnull", False), ("name", ""), ("salt__isnull", True)),
                        name="audit_actor_known_or_erased",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Person",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("pseudonym", models.CharField(max_length=64, unique=True)),
                ("salt", models.BinaryField(null=True)),
                ("erased_at", models.DateTimeField(null=True)),
            ],
            options={
                "ordering": ["pk"],
                "constraints": [
                    models.CheckConstraint(
                        condition=Q(("erased_at__isnull", True), ("salt__isnull", False))
                        | Q(("erased_at__isnull", False), ("salt__isnull", True)),
                        name="audit_person_known_or_erased",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="TreeNode",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("level", models.PositiveSmallIntegerField()),
                ("place", models.PositiveBigIntegerField()),
                ("hash", models.CharField(max_length=64)),
            ],
            options={
                "ordering": ["level", "place"],
                "constraints": [
                    models.UniqueConstraint(fields=("level", "place"), name="audit_tree_node_once"),
                    models.CheckConstraint(
                        condition=Q(("level__gte", 1)), name="audit_tree_node_is_inner"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Checkpoint",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("size", models.PositiveBigIntegerField(unique=True)),
                ("root", models.CharField(max_length=64)),
                ("at", models.DateTimeField()),
                ("note", models.TextField()),
            ],
            options={"ordering": ["size"]},
        ),
        migrations.RenameModel("ChainHead", "TreeHead"),
        migrations.RenameField("TreeHead", "sequence", "size"),
        migrations.RenameField("TreeHead", "hash", "root"),
        migrations.AddField(
            "TreeHead", "peaks", models.TextField(blank=True, default=""), preserve_default=False
        ),
        migrations.AddField(
            "TreeHead", "key_id", models.CharField(blank=True, default="", max_length=8), preserve_default=False
        ),
        migrations.AddField(
            "TreeHead", "seal", models.CharField(blank=True, default="", max_length=64), preserve_default=False
        ),
        migrations.RenameField("Entry", "object_name", "open_name"),
        migrations.RenameField("Entry", "before", "open_before"),
        migrations.RenameField("Entry", "after", "open_after"),
        migrations.RenameField("Entry", "hash", "leaf"),
        # On the way back its column returns to rows that are there already.
        migrations.AlterField(
            "Entry", "actor_name", models.CharField(default="", max_length=150)
        ),
        migrations.AddField(
            "Entry",
            "actor",
            models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="entries",
                to="audit.actor",
            ),
        ),
        migrations.AddField(
            "Entry",
            "person",
            models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="entries",
                to="audit.person",
            ),
        ),
        migrations.AddField("Entry", "sealed", models.BinaryField(null=True)),
        migrations.AddField(
            "Entry",
            "source",
            models.CharField(
                choices=[(name, name) for name in SOURCES], default="system", max_length=16
            ),
            preserve_default=False,
        ),
        migrations.AddField("Entry", "change_set", models.PositiveBigIntegerField(null=True)),
        migrations.AddField(
            "Entry", "seal", models.CharField(default="", max_length=64), preserve_default=False
        ),
    ]
