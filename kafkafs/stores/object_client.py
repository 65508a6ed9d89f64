"""Lists and reads the objects of a store by obstore; only GET, HEAD and LIST are ever sent.

It runs in the process of `fetching`, as obstore's threads do not survive a fork.
"""

from __future__ import annotations

import errno
import re
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from engine.errors import STORE_FAILURES, SourceError
from kafkafs.stores.store_options import StoreOptions

_TRIES = {
    "max_retries": 4,
    "retry_timeout": timedelta(seconds=15),
    "backoff": {
        "init_backoff": timedelta(milliseconds=100),
        "max_backoff": timedelta(seconds=3),
        "base": 2,
    },
}
_TIMES = {"connect_timeout": "5s", "read_timeout": "10s", "timeout": "60s"}
_NO_TRIES = {"max_retries": 0, "retry_timeout": timedelta(seconds=1)}
_CODE = re.compile(r"<Code>(\w+)</Code>")
_STATUS = re.compile(r"status(?: code)?:? (\d{3})")
_ARCHIVED = "InvalidObjectState"
_BUSY = ("SlowDown", "ServerBusy", "429", "503")


class ListedObject(NamedTuple):
    """An object as it was listed: its key, size, etag, and time of its last change in nanoseconds."""

    key: str
    size: int
    etag: str | None
    modified: int


class ObjectClient:
    """One bucket or container.

    Args:
        url: URL of a prefix or an object.
        options: how the store is reached.

    Attributes:
        prefix: the key that the URL names; "" for all of the bucket.
    """

    def __init__(self, url: str, options: StoreOptions) -> None:
        parts = urlsplit(url)
        self.prefix = parts.path.strip("/")
        self._store = _opened(parts.scheme, parts.netloc, options, _TRIES)
        self._parts, self._options = parts, options

    @cached_property
    def _impatient(self) -> Any:  # noqa: ANN401
        return _opened(self._parts.scheme, self._parts.netloc, self._options, _NO_TRIES)

    async def list(self, prefix: str) -> AsyncIterator[Sequence[ListedObject]]:
        """Yield the objects below a prefix, some at a time, without those at the prefix itself. Raises OSError."""
        import obstore

        try:
            async for batch in obstore.list(self._store, prefix=prefix or None, chunk_size=1000):
                yield [_object_of(meta) for meta in batch]
        except Exception as error:  # noqa: BLE001
            raise failure(error) from None

    async def list_files(self, prefix: str) -> Sequence[ListedObject]:
        """Return the objects that are directly below a prefix. Raises OSError."""
        import obstore

        try:
            found = await obstore.list_with_delimiter_async(self._store, prefix=prefix or None)
        except Exception as error:  # noqa: BLE001
            raise failure(error) from None
        return [_object_of(meta) for meta in found["objects"]]

    async def head(self, key: str) -> ListedObject | None:
        """Return the object of a key; None if it is not there. Raises OSError."""
        import obstore

        try:
            return _object_of(await obstore.head_async(self._store, key))
        except FileNotFoundError:
            return None
        except Exception as error:  # noqa: BLE001
            raise failure(error) from None

    async def read(self, found: ListedObject, start: int, end: int, *, patient: bool) -> Any:  # noqa: ANN401
        """Return a buffer of bytes of an object, as it was listed. Raises OSError."""
        import obstore

        store = self._store if patient else self._impatient
        options: Any = {"range": (start, end)}
        if found.etag is not None:
            options["if_match"] = found.etag
        try:
            got = await obstore.get_async(store, found.key, options=options)
            data = await got.bytes_async()
        except Exception as error:  # noqa: BLE001
            raise failure(error) from None
        etag = got.meta["e_tag"]
        is_same = etag is None or found.etag is None or etag.strip('"') == found.etag.strip('"')
        if not is_same or got.meta["size"] != found.size or len(data) != end - start:
            raise _error(errno.EREMCHG)
        return data


def _opened(scheme: str, bucket: str, options: StoreOptions, tries: Any) -> Any:  # noqa: ANN401
    """Return obstore's store of a bucket. Raises SourceError."""
    try:
        from obstore.store import AzureStore, GCSStore, S3Store
    except ImportError:
        raise SourceError(
            "object stores need the package obstore", hint="pip install 'kafkafs[stores]'"
        ) from None
    client: Any = dict(_TIMES)
    if options.endpoint.startswith("http://"):
        client["allow_http"] = True
    if options.ca_file:
        try:
            with open(options.ca_file, "rb") as file:
                client["root_certificate"] = file.read()
        except OSError as error:
            raise SourceError(
                f"{options.ca_file} cannot be read: {error.strerror}",
                hint="ca-file names a PEM file",
            ) from None
    config: Any = dict(options.others)
    if options.is_anonymous:
        config["skip_signature"] = True
    common: Any = {"client_options": client, "retry_config": tries}
    try:
        if scheme.startswith("s3"):
            config |= {"region": options.region} if options.region else {}
            config |= {"endpoint": options.endpoint} if options.endpoint else {}
            if options.profile:
                common["credential_provider"] = _of_profile(options.profile)
            return S3Store(bucket, **common, **config)
        if scheme == "gs":
            config |= {"base_url": options.endpoint} if options.endpoint else {}
            return GCSStore(bucket, **common, **config)
        config |= {"endpoint": options.endpoint} if options.endpoint else {}
        return AzureStore(bucket, **common, **config)
    except SourceError:
        raise
    except Exception as error:  # noqa: BLE001  one of many kinds that obstore has
        raise SourceError(
            f"the store cannot be opened: {_first_line(error)}", hint="see kafkafs help stores"
        ) from None


def _of_profile(name: str) -> Any:  # noqa: ANN401
    try:
        import boto3
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        raise SourceError("a profile needs the package boto3", hint="pip install boto3") from None
    return Boto3CredentialProvider(boto3.Session(profile_name=name))


def _object_of(meta: Any) -> ListedObject:  # noqa: ANN401
    modified = int(meta["last_modified"].timestamp() * 1000) * 1_000_000
    return ListedObject(meta["path"], meta["size"], meta["e_tag"], modified)


def failure(error: Exception) -> OSError:
    """Return an error of obstore as an OSError with an errno of `STORE_FAILURES`; its text is one short line."""
    if isinstance(error, FileNotFoundError):
        return _error(errno.ENOMEDIUM)
    text = str(error)
    code = _CODE.search(text)
    status = _STATUS.search(text)
    detail = " ".join(found[1] for found in (status, code) if found)
    name = type(error).__name__
    if name == "PreconditionError":
        return _error(errno.EREMCHG)
    is_refused = status is not None and status[1] in ("401", "403")
    if is_refused or name in ("PermissionDeniedError", "UnauthenticatedError"):
        is_archived = code is not None and code[1] == _ARCHIVED
        return _error(errno.ENONET if is_archived else errno.EKEYREJECTED, detail)
    if any(word in detail for word in _BUSY):
        return _error(errno.EUSERS, detail)
    return _error(errno.ECOMM if detail else errno.ENOLINK, detail)


def _error(number: int, detail: str = "") -> OSError:
    return OSError(number, STORE_FAILURES[number] + (f" ({detail})" if detail else ""))


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:200]
