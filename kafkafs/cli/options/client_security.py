"""Who may read from `kafkafs serve`: --tls-cert, --tls-key, --tls-client-ca, --password-file, --sasl-mechanism."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kafkafs.cli.arguments import Command
from kafkafs.cli.printing.terminal.output import say
from kafkafs.decode.shown_text import printable

if TYPE_CHECKING:
    import ssl

    from kafkafs.serve.security.login import Logins

_MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
_OPTIONS = (
    click.option(
        "--tls-cert",
        metavar="FILE",
        help="Encrypt with TLS: the server's certificate in PEM, with those between it and its authority.",
    ),
    click.option("--tls-key", metavar="FILE", help="Key of the certificate in PEM."),
    click.option(
        "--tls-client-ca",
        metavar="FILE",
        help="Serve only clients with a certificate of an authority in this file in PEM.",
    ),
    click.option(
        "--password-file",
        metavar="FILE",
        help="Serve only clients that log in by SASL, with a line NAME:PASSWORD of this file.",
    ),
    click.option(
        "--sasl-mechanism",
        "mechanisms",
        type=click.Choice(_MECHANISMS),
        multiple=True,
        help="Allow this way to log in; can be given several times. By default all with TLS, and those "
        "of SCRAM, which send no password, without.",
    ),
)


class ClientSecurity(NamedTuple):
    """Who may read.

    Attributes:
        tls: settings of TLS; None without.
        logins: how clients log in; None if they need not.
        is_open: whether everybody who reaches the address may read.
        again: reads the files again. Raises click.ClickException.
    """

    tls: ssl.SSLContext | None
    logins: Logins | None
    is_open: bool
    again: Callable[[], ClientSecurity]

    def warn_if_open(self, host: str, port: int) -> None:
        """Warn if everybody may read who reaches the address from another machine."""
        if self.is_open and not _is_loopback(host):
            _warn(f"whoever reaches {host}:{port} reads the records: see --password-file")

    def properties(self, host: str, port: int) -> list[str]:
        """Return the properties of clients; what each client has to add is in comments."""
        found = [f"bootstrap.servers={f'[{host}]' if ':' in host else host}:{port}"]
        if self.tls is None and self.logins is None:
            return found
        sasl = "SASL_" if self.logins is not None else ""
        found.append(f"security.protocol={sasl}{'PLAINTEXT' if self.tls is None else 'SSL'}")
        if self.tls is not None:
            found += [
                "# Java, with the certificate of the server or of its authority:",
                "#ssl.truststore.type=PEM",
                "#ssl.truststore.location=FILE",
                "# librdkafka:",
                "#ssl.ca.location=FILE",
            ]
        if self.logins is not None:
            mechanism = self.logins.mechanisms[0]
            kind = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
            module = f"org.apache.kafka.common.security.{kind}LoginModule"
            found += [
                f"sasl.mechanism={mechanism}",
                "# Java:",
                f'#sasl.jaas.config={module} required username="NAME" password="PASSWORD";',
                "# librdkafka:",
                "#sasl.username=NAME",
                "#sasl.password=PASSWORD",
            ]
        return found


def security_options(command: Command) -> Command:
    """Add the options; the command gets `security`, a ClientSecurity."""

    @wraps(command)
    def with_security(
        *given: Any,  # noqa: ANN401
        tls_cert: str | None,
        tls_key: str | None,
        tls_client_ca: str | None,
        password_file: str | None,
        mechanisms: tuple[str, ...],
        **named: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        certificate, key, client_ca, passwords = (
            None if path is None else os.path.abspath(path)  # a daemon reads them again elsewhere
            for path in (tls_cert, tls_key, tls_client_ca, password_file)
        )
        security = _security(certificate, key, client_ca, passwords, mechanisms)
        return command(*given, security=security, **named)

    for option in reversed(_OPTIONS):
        with_security = option(with_security)
    return with_security  # type: ignore[return-value]


def _security(
    certificate: str | None,
    key: str | None,
    client_ca: str | None,
    passwords: str | None,
    mechanisms: tuple[str, ...],
) -> ClientSecurity:
    tls = _tls(certificate, key, client_ca)
    logins = _logins(passwords, mechanisms, has_tls=tls is not None)
    again = partial(_security, certificate, key, client_ca, passwords, mechanisms)
    return ClientSecurity(tls, logins, logins is None and client_ca is None, again)


def _tls(certificate: str | None, key: str | None, client_ca: str | None) -> ssl.SSLContext | None:
    if certificate is None and key is None:
        if client_ca is not None:
            raise click.UsageError("--tls-client-ca needs --tls-cert and --tls-key")
        return None
    if certificate is None or key is None:
        raise click.UsageError("--tls-cert and --tls-key are needed together")
    from kafkafs.serve.security.tls import TlsError, server_context

    try:
        return server_context(certificate, key, client_ca)
    except TlsError as error:
        raise click.BadParameter(str(error), param_hint="--tls-cert") from None


def _logins(path: str | None, mechanisms: tuple[str, ...], *, has_tls: bool) -> Logins | None:
    if path is None:
        if mechanisms:
            raise click.UsageError("--sasl-mechanism needs --password-file")
        return None
    from kafkafs.serve.security.login import Logins
    from kafkafs.serve.security.mechanisms import MECHANISMS, PLAIN, SCRAM, Users
    from kafkafs.serve.security.password_file import (
        PasswordFileError,
        is_exposed,
        read_password_file,
    )

    try:
        passwords = read_password_file(path)
    except PasswordFileError as error:
        raise click.BadParameter(str(error), param_hint="--password-file") from None
    if is_exposed(path):
        _warn(f"other users can read or change {path}: chmod 600 {path}")
    chosen = mechanisms or (MECHANISMS if has_tls else tuple(SCRAM))
    if PLAIN in chosen and not has_tls:
        _warn("with PLAIN passwords cross the network as they are: see --tls-cert")
    return Logins(Users(passwords), [each for each in MECHANISMS if each in chosen])


def _is_loopback(host: str) -> bool:
    """Return whether only this machine reaches a host."""
    import ipaddress
    import socket

    try:
        found = {str(each[4][0]) for each in socket.getaddrinfo(host, None)}
        return all(ipaddress.ip_address(each.partition("%")[0]).is_loopback for each in found)
    except (OSError, ValueError):
        return False


def _warn(sentence: str) -> None:
    say(f"kafkafs: warning: {printable(sentence)}", err=True)
