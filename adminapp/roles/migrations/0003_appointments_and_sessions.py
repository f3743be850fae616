"""Who may appoint; appointments with issuer, reason and end; sessions, environment, settings."""

from collections import Counter
from typing import Any

import django.core.validators
import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models
from django.utils import timezone

import adminapp.roles.models


def number(apps: Any, _schema_editor: Any) -> None:
    """Say what appointments say as text, close what has ended, number what says the same."""
    now, counts = timezone.now(), Counter()
    for row in apps.get_model("roles", "Appointment").objects.order_by("pk").iterator():
        row.atom = row.name  # none had parameters before
        row.closed = row.ends if row.ends is not None and row.ends <= now else None
        if row.closed is None:
            counts[row.principal_id, row.atom] += 1
            row.number = counts[row.principal_id, row.atom]
        row.save(update_fields=["atom", "closed", "number"])


class Migration(migrations.Migration):

    dependencies = [
        ('identity', '0003_domain_quotas'),
        ('roles', '0002_parameters'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='AppointmentRule',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('name', models.CharField(max_length=64, validators=[django.core.validators.RegexValidator('\\A[A-Za-z_][A-Za-z0-9_]{0,63}\\Z', 'use letters, digits and underscores, at most 64, no digit first')])),
                ('title', models.CharField(blank=True, max_length=200)),
                ('parameters', models.JSONField(blank=True, default=list)),
                ('by', models.JSONField(blank=True, default=list)),
                ('longest', models.PositiveIntegerField(blank=True, null=True)),
                ('lapses_with_issuer', models.BooleanField(default=False)),
            ],
            options={
                'ordering': ['domain_id', 'name'],
            },
        ),
        migrations.CreateModel(
            name='RoleSession',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('opened', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('closed', models.DateTimeField(blank=True, editable=False, null=True)),
                ('reason', models.CharField(blank=True, max_length=500)),
            ],
            options={
                'ordering': ['-id'],
            },
        ),
        migrations.CreateModel(
            name='RoleSettings',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('by_session', models.BooleanField(default=False)),
            ],
            options={
                'verbose_name_plural': 'role settings',
                'ordering': ['domain_id'],
            },
        ),
        migrations.CreateModel(
            name='SessionRole',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('atom', models.CharField(max_length=500)),
                ('rule', models.JSONField()),
                ('grounds', models.JSONField()),
                ('since', models.DateTimeField()),
                ('ended', models.DateTimeField(blank=True, null=True)),
                ('chain', models.JSONField(blank=True, default=list)),
            ],
            options={
                'ordering': ['session_id', 'id'],
            },
        ),
        migrations.AddField(
            model_name='appointment',
            name='atom',
            field=adminapp.roles.models.AtomField(blank=True, default='', editable=False, max_length=500),
        ),
        migrations.AddField(
            model_name='appointment',
            name='closed',
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name='appointment',
            name='issued_by',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.RESTRICT, related_name='issued', to='identity.principal'),
        ),
        migrations.AddField(
            model_name='appointment',
            name='number',
            field=models.PositiveSmallIntegerField(default=1),
        ),
        migrations.AddField(
            model_name='appointment',
            name='reason',
            field=models.CharField(blank=True, max_length=500),
        ),
        migrations.RunPython(number, migrations.RunPython.noop),
        migrations.AlterField(
            model_name='appointment',
            name='ends',
            field=models.DateTimeField(blank=True, db_index=True, null=True),
        ),
        migrations.AddConstraint(
            model_name='appointment',
            constraint=models.UniqueConstraint(condition=models.Q(('closed__isnull', True)), fields=('principal', 'atom', 'number'), name='appointment_number_once'),
        ),
        migrations.AddConstraint(
            model_name='appointment',
            constraint=models.CheckConstraint(condition=models.Q(('ends__isnull', True), ('ends__gte', models.F('starts')), _connector='OR'), name='appointment_ends_after_start'),
        ),
        migrations.AddConstraint(
            model_name='appointment',
            constraint=models.CheckConstraint(condition=models.Q(('issued_by__isnull', True), models.Q(('issued_by', models.F('principal')), _negated=True), _connector='OR'), name='appointment_not_by_oneself'),
        ),
        migrations.AddField(
            model_name='appointmentrule',
            name='domain',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='appointment_rules', to='identity.domain'),
        ),
        migrations.AddField(
            model_name='rolesession',
            name='opened_by',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='rolesession',
            name='principal',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='sessions', to='identity.principal'),
        ),
        migrations.AddField(
            model_name='rolesettings',
            name='domain',
            field=models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='role_settings', to='identity.domain'),
        ),
        migrations.AddField(
            model_name='sessionrole',
            name='session',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='roles', to='roles.rolesession'),
        ),
        migrations.AddConstraint(
            model_name='appointmentrule',
            constraint=models.UniqueConstraint(fields=('domain', 'name'), name='appointment_rule_name_once'),
        ),
        migrations.AddConstraint(
            model_name='appointmentrule',
            constraint=models.CheckConstraint(condition=models.Q(('longest__isnull', True), ('longest__gt', 0), _connector='OR'), name='appointment_rule_longest_positive'),
        ),
        migrations.AddConstraint(
            model_name='rolesession',
            constraint=models.CheckConstraint(condition=models.Q(('closed__isnull', True), ('closed__gte', models.F('opened')), _connector='OR'), name='session_closed_after_opening'),
        ),
        migrations.AddConstraint(
            model_name='sessionrole',
            constraint=models.UniqueConstraint(condition=models.Q(('ended__isnull', True)), fields=('session', 'atom'), name='session_role_active_once'),
        ),
        migrations.AddConstraint(
            model_name='sessionrole',
            constraint=models.CheckConstraint(condition=models.Q(('ended__isnull', True), ('ended__gte', models.F('since')), _connector='OR'), name='session_role_ended_after_start'),
        ),
    ]
