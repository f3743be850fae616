import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("distribution", "0012_revoked_rights"),
        ("identity", "0008_domain_decision_days"),
    ]

    operations = [
        migrations.AlterField(
            model_name="revocationcheck",
            name="domain",
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="receipt_checks", to="identity.domain"),
        ),
        migrations.RemoveConstraint(
            model_name="revocationcheck",
            name="revocation_check_once",
        ),
        migrations.AddConstraint(
            model_name="revocationcheck",
            constraint=models.UniqueConstraint(fields=("revocation", "domain", "day"), name="revocation_check_once"),
        ),
    ]
