from django.apps import AppConfig


class TrustGroupsConfig(AppConfig):
    name = "adminapp.trustgroups"

    def ready(self) -> None:
        from adminapp.core import journal
        from adminapp.trustgroups import kinds, periods

        journal.on_settle(periods.settle)
        kinds.register_all()
