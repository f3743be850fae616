from django.apps import AppConfig


class PoliciesConfig(AppConfig):
    name = "adminapp.policies"

    def ready(self) -> None:
        from adminapp.identity import ports
        from adminapp.policies import checks, coverage, kinds

        ports.add_coverage("policy", coverage.policy)
        ports.add_model_check(checks.policies)
        kinds.register_all()
