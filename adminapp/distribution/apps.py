from django.apps import AppConfig


class DistributionConfig(AppConfig):
    name = "adminapp.distribution"

    def ready(self) -> None:
        from adminapp.core import journal
        from adminapp.distribution import checks, rolloutplans, rotation, withdrawals
        from adminapp.identity import ports

        journal.on_settle(withdrawals.demand)
        rolloutplans.register_all()
        rotation.register_all()
        ports.add_model_check(checks.conjunctions)
