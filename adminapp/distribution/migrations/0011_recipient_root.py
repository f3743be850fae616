from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("distribution", "0010_bundle_roots"),
    ]

    operations = [
        migrations.AddField(
            model_name="recipient",
            name="root_version",
            field=models.PositiveBigIntegerField(default=0),
        ),
    ]
