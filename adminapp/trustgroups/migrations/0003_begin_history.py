"""What is known of memberships and epochs when their history begins."""

from django.db import migrations
from django.db.models import F
from django.utils import timezone

WHY = "held when the history begins"


def begin(apps, schema_editor):
    group_model = apps.get_model("trustgroups", "TrustGroup")
    membership = apps.get_model("trustgroups", "MembershipPeriod")
    holding = apps.get_model("trustgroups", "HoldingPeriod")
    epoch = apps.get_model("trustgroups", "KeyEpoch")
    now = timezone.now()
    held = set()
    for group in group_model.objects.select_related("overlay").order_by("pk"):
        members = list(group.members.order_by("pk").values_list("pk", flat=True))
        if group.kind == "overlay":
            refs = [f"overlay:{group.overlay.name}"]
        else:
            refs = [f"key:{name}" for name in group.keys.values_list("name", flat=True)]
        membership.objects.bulk_create(
            membership(
                domain_id=group.domain_id,
                group_id=group.pk,
                group_name=group.name,
                agent_id=agent,
                since=now,
                why=WHY,
            )
            for agent in members
        )
        held |= {(group.domain_id, ref, agent) for ref in refs for agent in members}
    holding.objects.bulk_create(
        holding(domain_id=domain, group_ref=ref, agent_id=agent, since=now, why=WHY)
        for domain, ref, agent in sorted(held)
    )
    epoch.objects.exclude(state="staged").update(current_at=F("created"))
    epoch.objects.filter(state__in=("draining", "retired")).update(draining_at=now)
    epoch.objects.filter(state="retired").update(retired_at=now)


class Migration(migrations.Migration):
    dependencies = [("trustgroups", "0002_history")]

    operations = [migrations.RunPython(begin, migrations.RunPython.noop, elidable=True)]
