from django.apps import AppConfig


class RolesConfig(AppConfig):
    name = "adminapp.roles"

    def ready(self) -> None:
        from adminapp.identity import ports
        from adminapp.roles import checks

        ports.add_model_check(checks.rules)
