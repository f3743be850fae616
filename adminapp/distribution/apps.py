from django.apps import AppConfig


class DistributionConfig(AppConfig):
    name = "adminapp.distribution"

    def ready(self) -> None:
        from adminapp.distribution import checks
        from adminapp.identity import ports

        ports.add_model_check(checks.conjunctions)
