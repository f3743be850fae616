"""Roles, rules and appointments with parameters; the conditions of a rule that must keep holding."""

from __future__ import annotations

from typing import Any

from django.db import migrations, models


def to_lists(apps: Any, _schema_editor: Any) -> None:
    """What was asked for without more words had to keep holding."""
    for rule in apps.get_model("roles", "RoleRule").objects.iterator():
        rule.constraints = [rule.constraint_text] if rule.constraint_text.strip() else []
        rule.membership = [*rule.prerequisites, *rule.appointments, *rule.constraints]
        rule.save(update_fields=["constraints", "membership"])


def to_texts(apps: Any, _schema_editor: Any) -> None:
    for rule in apps.get_model("roles", "RoleRule").objects.iterator():
        rule.constraint_text = " && ".join(f"({each})" for each in rule.constraints)
        rule.save(update_fields=["constraint_text"])


class Migration(migrations.Migration):
    dependencies = [("roles", "0001_initial")]

    operations = [
        migrations.AddField("role", "parameters", models.JSONField(blank=True, default=list)),
        migrations.AddField("appointment", "parameters", models.JSONField(blank=True, default=list)),
        migrations.AddField("rolerule", "arguments", models.JSONField(blank=True, default=list)),
        migrations.AddField("rolerule", "membership", models.JSONField(blank=True, default=list)),
        migrations.RenameField("rolerule", "constraints", "constraint_text"),
        migrations.AlterField(
            "rolerule", "constraint_text", models.TextField(blank=True, default="")
        ),
        migrations.AddField("rolerule", "constraints", models.JSONField(blank=True, default=list)),
        migrations.RunPython(to_lists, to_texts),
        migrations.RemoveField("rolerule", "constraint_text"),
    ]
