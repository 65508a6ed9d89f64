"""URLs of object stores, and the options that a store is opened with."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from engine.errors import SourceError
from kafkafs.amounts import parsed_size

_SCHEMES = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "az": "az",
    "azure": "az",
    "abfs": "az",
    "abfss": "az",
}
_SECRET = re.compile(r"secret|password|token|sas|(?<!_)key$|account_key|credential", re.IGNORECASE)
_HINT = (
    "credentials come from the environment, such as AWS_ACCESS_KEY_ID, AZURE_STORAGE_ACCOUNT_KEY,"
    " GOOGLE_APPLICATION_CREDENTIALS, or from profile=NAME"
)
OWN = ("anonymous", "ca-file", "endpoint", "profile", "region", "space")
"""Options that all stores have; others are passed to the library of the store."""
ENVIRONMENT = "KAFKAFS_STORE_OPTIONS"
_SPACE = 8 << 30


class StoreOptions(NamedTuple):
    """How a store is reached.

    Attributes:
        endpoint: URL of a compatible store; "" for the provider's own.
        region, profile: "" for those of the environment.
        is_anonymous: whether requests are not signed.
        ca_file: path of certificates to trust; "" for the system's.
        space: bytes that the private copy may take on disk.
        others: options of the library by name.
    """

    endpoint: str = ""
    region: str = ""
    profile: str = ""
    is_anonymous: bool = False
    ca_file: str = ""
    space: int = _SPACE
    others: Mapping[str, str] = {}


def is_store(path: str) -> bool:
    """Return whether a path is the URL of a store."""
    scheme, colon, _ = path.partition("://")
    return bool(colon) and scheme in _SCHEMES


def checked_url(url: str) -> str:
    """Return a URL without slashes at its end. Raises SourceError for one with credentials or without a bucket."""
    parts = urlsplit(url)
    if parts.username is not None or parts.query:
        raise SourceError(
            f"{parts.scheme}://{parts.hostname or ''}{parts.path} has more than a bucket and a prefix in its URL",
            hint=_HINT,
        )
    if not parts.netloc:
        raise SourceError(f"{url} names no bucket", hint=f"{parts.scheme}://BUCKET/PREFIX")
    return url.rstrip("/")


def given_options() -> Sequence[str]:
    """Return the NAME=VALUE texts of $KAFKAFS_STORE_OPTIONS, which the processes of a command share."""
    return [text for text in os.environ.get(ENVIRONMENT, "").split(",") if text]


def parse_options(texts: Sequence[str]) -> StoreOptions:
    """Return the options of NAME=VALUE texts. Raises SourceError, also for secrets."""
    given: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if _SECRET.search(name):
            raise SourceError(f"{name} is a secret, and others could see it here", hint=_HINT)
        if not equals or not value:
            raise SourceError(f"the store option {text!r} is not NAME=VALUE", hint=", ".join(OWN))
        given[name] = value
    space = parsed_size(given.pop("space", str(_SPACE)))
    if space is None:
        raise SourceError("the store option space is no size", hint="space=8G")
    return StoreOptions(
        endpoint=given.pop("endpoint", ""),
        region=given.pop("region", ""),
        profile=given.pop("profile", ""),
        is_anonymous=given.pop("anonymous", "false").lower() in ("true", "yes", "1"),
        ca_file=given.pop("ca-file", ""),
        space=space,
        others=given,
    )
