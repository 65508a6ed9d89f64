"""Managers for the tests of this folder, shut down after each test."""

from tests.conformance.log_managers import dirs, managers

__all__ = ["dirs", "managers"]
