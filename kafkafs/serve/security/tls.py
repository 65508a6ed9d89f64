"""TLS of the server, from files in PEM."""

from __future__ import annotations

import ssl
from typing import NoReturn


class TlsError(Exception):
    """A certificate or a key cannot be used."""


def server_context(certificate: str, key: str, client_ca: str | None) -> ssl.SSLContext:
    """Return the settings of TLS: version 1.2 or newer.

    Args:
        certificate: file with the server's certificate, and those between it and its authority.
        key: file with the key of the certificate, not encrypted.
        client_ca: file with the authorities of clients; with it, each client has to show a certificate of one.

    Raises:
        TlsError: a file cannot be read, or is not what it should be.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    for path in filter(None, (certificate, key, client_ca)):
        try:
            with open(path, "rb"):
                pass
        except OSError as error:
            raise TlsError(f"{path}: {error.strerror}") from None
    try:
        context.load_cert_chain(certificate, key, password=lambda: _refuse_password(key))
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise TlsError(f"{key} is not the key of the certificate in {certificate}") from None
        raise TlsError(
            f"{certificate} and {key} are not a certificate and its key in PEM"
        ) from None
    if client_ca is not None:
        try:
            context.load_verify_locations(client_ca)
        except ssl.SSLError:
            raise TlsError(f"{client_ca} has no certificate in PEM") from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _refuse_password(key: str) -> NoReturn:
    raise TlsError(f"{key} is encrypted: decrypt it with openssl pkey")


def why_no_handshake(error: BaseException | None) -> str:
    """Return a sentence on a connection whose TLS did not begin."""
    cause = error.__cause__ if error is not None else None
    if not isinstance(cause, ssl.SSLError):
        return "the connection ended within the TLS handshake"
    if cause.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNEXPECTED_MESSAGE"):
        return "the client does not speak TLS"
    return f"no TLS: {(cause.reason or str(cause)).lower().replace('_', ' ')}"
