from django.apps import AppConfig


class PrivacyConfig(AppConfig):
    name = "adminapp.privacy"

    def ready(self) -> None:
        from adminapp.identity import ports
        from adminapp.privacy import checks, kinds

        ports.add_model_check(checks.split_plans)
        kinds.register_all()
