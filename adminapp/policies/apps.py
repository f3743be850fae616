from django.apps import AppConfig


class PoliciesConfig(AppConfig):
    name = "adminapp.policies"

    def ready(self) -> None:
        from adminapp.catalog import ports as catalog
        from adminapp.identity import ports
        from adminapp.policies import checks, coverage, environment, kinds, uses

        ports.add_coverage("policy", coverage.policy)
        ports.add_environment(environment.values_at)
        ports.add_model_check(checks.policies)
        catalog.add_uses(uses.in_force)
        kinds.register_all()
