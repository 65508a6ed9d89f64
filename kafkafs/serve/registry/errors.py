"""Errors of the registry's REST API; source: Confluent's rest/exceptions/Errors.java."""

from __future__ import annotations


class RegistryError(Exception):
    """An answer that is an error.

    Attributes:
        code: the API's number; its first three digits are the status of HTTP.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def status(self) -> int:
        """The status of HTTP."""
        return int(str(self.code)[:3])


def no_subject(subject: str) -> RegistryError:
    """Return the error for a subject that is not there."""
    return RegistryError(40401, f"Subject '{subject}' not found.")


def no_version(version: int) -> RegistryError:
    """Return the error for a version that is not there."""
    return RegistryError(40402, f"Version {version} not found.")


def no_schema(name: object) -> RegistryError:
    """Return the error for an id or a GUID that is not there."""
    return RegistryError(40403, f"Schema {name} not found")


def invalid_version(text: str) -> RegistryError:
    """Return the error for a text that is no version."""
    return RegistryError(
        42202,
        f"The specified version '{text}' is not a valid version id. "
        'Allowed values are between [1, 2^31-1] and the string "latest"',
    )
