"""Backup and restore of the whole control plane, the same for every database."""
