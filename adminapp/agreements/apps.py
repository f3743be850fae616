from django.apps import AppConfig


class AgreementsConfig(AppConfig):
    name = "adminapp.agreements"

    def ready(self) -> None:
        from adminapp.agreements import checks, kinds, selectors
        from adminapp.identity import guests, ports

        kinds.register_all()
        ports.add_model_check(checks.agreements)
        guests.register(guests_of=selectors.guests, hosts_of=selectors.hosts)
