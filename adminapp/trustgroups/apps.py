from django.apps import AppConfig


class TrustGroupsConfig(AppConfig):
    name = "adminapp.trustgroups"

    def ready(self) -> None:
        from adminapp.trustgroups import kinds

        kinds.register_all()
