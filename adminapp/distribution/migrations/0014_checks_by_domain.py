import django.db.models.deletion
from django.db import migrations, models
from django.db.models import F


def leave_own(apps, schema_editor):
    """Going back: a release before knows checks of the revocation's own domain alone."""
    check = apps.get_model("distribution", "RevocationCheck")
    check.objects.exclude(domain=F("revocation__domain")).delete()


class Migration(migrations.Migration):

    dependencies = [
        ("distribution", "0013_rights_of_before"),
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
        migrations.RunPython(migrations.RunPython.noop, leave_own),
    ]
