"""The broker agent: a process of its own beside ActiveMQ, and its command line."""
