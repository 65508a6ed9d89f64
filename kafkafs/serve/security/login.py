"""The login of a connection: SaslHandshake chooses a mechanism, and SaslAuthenticate carries its bytes.

After version 0 of SaslHandshake the bytes come without the headers of requests, as before Kafka 1.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.request import Fields, Request
from kafkafs.serve.security import mechanisms
from kafkafs.serve.security.mechanisms import LoginRefused, Mechanism, Users

_FOR_EVER = 0


class Logins(NamedTuple):
    """How clients log in.

    Attributes:
        users: names and passwords.
        mechanisms: names of the mechanisms, the preferred one first.
    """

    users: Users
    mechanisms: Sequence[str]


class Login:
    """The state of one connection's login."""

    def __init__(self, logins: Logins) -> None:
        self._logins = logins
        self._name = ""
        self._mechanism: Mechanism | None = None
        self.takes_tokens = False
        """Whether the next bytes are those of the mechanism, without the header of a request."""

    @property
    def user(self) -> str | None:
        """Name of the client, once it has proved it."""
        return None if self._mechanism is None else self._mechanism.user

    def handshake(self, request: Request) -> Fields:
        """Answer SaslHandshake."""
        wanted = request.fields["mechanism"]
        answer: Fields = {"errorCode": ErrorCode.NONE, "mechanisms": list(self._logins.mechanisms)}
        if wanted not in self._logins.mechanisms:
            return answer | {"errorCode": ErrorCode.UNSUPPORTED_SASL_MECHANISM}
        if self._mechanism is not None:
            return answer | {"errorCode": ErrorCode.ILLEGAL_SASL_STATE}
        self._name = wanted
        self._mechanism = mechanisms.start(wanted, self._logins.users)
        self.takes_tokens = request.version == 0
        return answer

    def authenticate(self, request: Request) -> Fields:
        """Answer SaslAuthenticate. May take milliseconds.

        Raises:
            LoginRefused: the client proved nothing.
        """
        return {
            "errorCode": ErrorCode.NONE,
            "errorMessage": None,
            "authBytes": self.token(request.fields["authBytes"]),
            "sessionLifetimeMs": _FOR_EVER,
        }

    def token(self, data: bytes) -> bytes:
        """Return the mechanism's answer to the client's bytes. May take milliseconds.

        Raises:
            LoginRefused: the client proved nothing.
        """
        if self._mechanism is None:
            raise LoginRefused("SaslAuthenticate came before SaslHandshake")
        answer = self._mechanism.answer(data)
        if self._mechanism.user is not None:
            self.takes_tokens = False
        return answer

    def refusal(self) -> Fields:
        """Return the answer to a SaslAuthenticate that proved nothing."""
        sentence = f"Authentication failed with SASL mechanism {self._name}: invalid credentials"
        return {
            "errorCode": ErrorCode.SASL_AUTHENTICATION_FAILED,
            "errorMessage": sentence,
            "authBytes": b"",
            "sessionLifetimeMs": _FOR_EVER,
        }
