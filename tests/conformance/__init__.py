"""Suites that another implementation can be held against."""
