from datetime import timedelta

from django.db import migrations


def place(apps, schema_editor):
    """A check was of the revocation's own domain, and of a principal's revocation alone."""
    check = apps.get_model("distribution", "RevocationCheck")
    revocation = apps.get_model("distribution", "Revocation")
    right = apps.get_model("distribution", "RevokedRight")
    for pk, domain in revocation.objects.filter(checks__isnull=False).distinct().values_list(
        "pk", "domain"
    ):
        check.objects.filter(revocation=pk).update(domain=domain)
    rows = revocation.objects.filter(kind="principal", principal__isnull=False)
    right.objects.bulk_create(
        [
            right(
                revocation=row,
                domain=row.domain,
                names=[row.principal.handle],
                floor=row.revision,
                until=row.created + timedelta(seconds=row.domain.lease_seconds),
                state="watched" if row.domain.decision_days else "unlogged",
            )
            for row in rows.select_related("domain", "principal").iterator(500)
        ],
        batch_size=500,
    )


class Migration(migrations.Migration):
    """Of its own: PostgreSQL changes no table whose rows the same transaction has changed."""

    dependencies = [
        ("distribution", "0012_revoked_rights"),
    ]

    operations = [
        migrations.RunPython(place, migrations.RunPython.noop),
    ]
