import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("distribution", "0011_recipient_root"),
        ("identity", "0008_domain_decision_days"),
    ]

    operations = [
        migrations.CreateModel(
            name="RevokedRight",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("party", models.CharField(choices=[("client", "Client"), ("agent", "Agent")], default="client", max_length=8)),
                ("names", models.JSONField(default=list)),
                ("action", models.CharField(blank=True, max_length=16)),
                ("type", models.CharField(blank=True, max_length=128)),
                ("policy", models.CharField(blank=True, max_length=64)),
                ("floor", models.PositiveBigIntegerField(default=0)),
                ("until", models.DateTimeField()),
                ("again", models.JSONField(default=dict)),
                ("partly", models.BooleanField(default=False)),
                ("more", models.BooleanField(default=False)),
                ("state", models.CharField(choices=[("watched", "Watched"), ("unlogged", "the domain kept no decisions then"), ("expired", "decisions of then are not kept any more")], default="watched", max_length=16)),
                ("domain", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="revoked_rights", to="identity.domain")),
                ("revocation", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="rights", to="distribution.revocation")),
            ],
            options={
                "ordering": ["revocation_id", "id"],
                "indexes": [models.Index(fields=["domain", "state"], name="distributio_domain__fcae36_idx")],
            },
        ),
        migrations.AlterModelOptions(
            name="revocationcheck",
            options={"ordering": ["revocation_id", "domain_id", "day"]},
        ),
        migrations.AddField(
            model_name="revocation",
            name="held_against",
            field=models.JSONField(blank=True, default=dict),
        ),
        migrations.AddField(
            model_name="revocationcheck",
            name="contradicting",
            field=models.JSONField(default=list),
        ),
        migrations.AddField(
            model_name="revocationcheck",
            name="early",
            field=models.PositiveBigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="revocationcheck",
            name="unclear",
            field=models.PositiveBigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="revocationcheck",
            name="domain",
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name="receipt_checks", to="identity.domain"),
        ),
    ]
