from django.apps import AppConfig


class TrustGroupsConfig(AppConfig):
    name = "adminapp.trustgroups"
