"""A private ActiveMQ broker as a foreground process of ours, on loopback."""

from tasks.local.activemq.broker import ACCOUNTS, ActiveMQ, TlsClient, TlsServer
from tasks.local.activemq.brokers_file import write_brokers_file

__all__ = ["ACCOUNTS", "ActiveMQ", "TlsClient", "TlsServer", "write_brokers_file"]
