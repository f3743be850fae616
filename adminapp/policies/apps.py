from django.apps import AppConfig


class PoliciesConfig(AppConfig):
    name = "adminapp.policies"

    def ready(self) -> None:
        from adminapp.catalog import ports as catalog
        from adminapp.identity import ports, querysets
        from adminapp.policies import checks, coverage, defining, environment, kinds, uses

        ports.add_coverage("policy", coverage.policy)
        ports.add_right("event-type", defining.may_define)
        querysets.add_sight(defining.sight)
        ports.add_environment(environment.values_at)
        ports.add_model_check(checks.policies)
        catalog.add_uses(uses.in_force)
        kinds.register_all()
