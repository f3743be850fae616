from django.apps import AppConfig


class WebhooksConfig(AppConfig):
    name = "adminapp.webhooks"

    def ready(self) -> None:
        from adminapp.audit import services as audit
        from adminapp.core import journal
        from adminapp.webhooks import noticing

        audit.on_write(noticing.entries)
        journal.on_settle(noticing.applied)
