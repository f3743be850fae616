from django.apps import AppConfig


class OutboxConfig(AppConfig):
    name = "adminapp.outbox"
