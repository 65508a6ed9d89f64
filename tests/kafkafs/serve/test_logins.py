"""Where clients log in, one without a right password reads nothing, and learns nothing."""

from __future__ import annotations

import base64
import hashlib
import hmac
import signal
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkafs.serve.security.password_file import PasswordFileError, read_password_file
from tests.fixtures_data import copy_of
from tests.kafkafs.serve.connection import Connection, request
from tests.kafkafs.serve.serving import Served, serving

METADATA, SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 3, 17, 18, 36
UNSUPPORTED_MECHANISM, ILLEGAL_STATE, FAILED = 33, 34, 58
SCRAM = ["SCRAM-SHA-256", "SCRAM-SHA-512"]
PASSWORD = "s3cret: with blanks "


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_of("current", tmp_path_factory.mktemp("source"), ["orders-0"])


def password_file(folder: Path, text: str = f"# readers\n\nalice:{PASSWORD}\nb,o=b:ü\n") -> str:
    path = folder / "passwords"
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


@pytest.fixture(scope="module")
def served(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("log")
    allowed = [part for name in ("PLAIN", *SCRAM) for part in ("--sasl-mechanism", name)]
    limits = ("-o", "failed_login_milliseconds=300,login_bytes=2K")
    with serving(
        source, folder, "--password-file", password_file(folder), *allowed, *limits
    ) as found:
        yield found
        log = found.log.read_text()
    assert PASSWORD not in log
    assert "guess" not in log


class Scram:
    """The client's side, from RFC 5802."""

    def __init__(self, mechanism: str, name: str, password: str, twice: bool = False) -> None:
        self.hash = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}[mechanism]
        self.password = password.encode()
        self.bare = f"n={name.replace('=', '=3D').replace(',', '=2C')},r=mine"
        self.first = b"n,," + self.bare.encode()
        self.prefix = "mine" if twice else ""
        self.proved = b""

    def final(self, answer: bytes) -> bytes:
        nonce, salt, rounds = (part.split("=", 1)[1] for part in answer.decode().split(","))
        assert nonce.startswith("mine")
        assert len(nonce) > 20
        assert int(rounds) >= 4096
        salted = hashlib.pbkdf2_hmac(self.hash, self.password, base64.b64decode(salt), int(rounds))
        without = f"c=biws,r={self.prefix}{nonce}"
        signed = f"{self.bare},{answer.decode()},{without}".encode()
        key = hmac.digest(salted, b"Client Key", self.hash)
        signature = hmac.digest(hashlib.new(self.hash, key).digest(), signed, self.hash)
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        server_key = hmac.digest(salted, b"Server Key", self.hash)
        self.proved = b"v=" + base64.b64encode(hmac.digest(server_key, signed, self.hash))
        return f"{without},p={base64.b64encode(proof).decode()}".encode()


def log_in(
    connection: Connection, mechanism: str, name: str, password: str, version: int = 2
) -> int:
    """The error code of a login."""
    assert connection.ask(SASL_HANDSHAKE, 1, mechanism=mechanism)["errorCode"] == 0
    if mechanism == "PLAIN":
        token = f"\0{name}\0{password}".encode()
        return connection.ask(SASL_AUTHENTICATE, version, authBytes=token)["errorCode"]
    scram = Scram(mechanism, name, password)
    first = connection.ask(SASL_AUTHENTICATE, version, authBytes=scram.first)
    assert first["errorCode"] == 0
    last = connection.ask(SASL_AUTHENTICATE, version, authBytes=scram.final(first["authBytes"]))
    if not last["errorCode"]:
        assert last["authBytes"] == scram.proved
    return last["errorCode"]


def is_served(connection: Connection) -> bool:
    topics = connection.ask(METADATA, 9, topics=None)["topics"]
    return [each["name"] for each in topics] == ["orders"]


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM])
@pytest.mark.parametrize(("name", "password"), [("alice", PASSWORD), ("b,o=b", "ü")])
@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_client_with_the_right_password_is_served(served, mechanism, name, password, version):
    with Connection(served) as connection:
        assert log_in(connection, mechanism, name, password, version) == 0
        assert is_served(connection)


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM])
@pytest.mark.parametrize("name", ["alice", "nobody", ""])
def test_a_wrong_password_and_an_unknown_name_end_alike_after_a_delay(served, mechanism, name):
    with Connection(served) as connection:
        start = time.monotonic()
        assert log_in(connection, mechanism, name, "guess") == FAILED
        assert time.monotonic() - start >= 0.3
        assert connection.is_closed
    assert served.warned("login failed: ", f"wrong name or password: {name!r}")


def test_a_password_that_only_begins_right_is_wrong(served):
    for given in (PASSWORD[:-1], PASSWORD + "x", PASSWORD.upper()):
        with Connection(served) as connection:
            assert log_in(connection, "PLAIN", "alice", given) == FAILED


def test_a_client_that_has_not_logged_in_may_ask_for_versions_alone(served):
    with Connection(served) as connection:
        keys = connection.ask(API_VERSIONS, 3, clientSoftwareName="t", clientSoftwareVersion="1")
        assert {each["apiKey"] for each in keys["apiKeys"]} >= {SASL_HANDSHAKE, SASL_AUTHENTICATE}
        connection.send(request(METADATA, 9, 7, topics=None))
        assert connection.is_closed
    assert served.warned("connection closed: a MetadataRequest came before the login")


def test_a_login_cannot_be_left_out_within_a_login(served):
    with Connection(served) as connection:
        connection.ask(SASL_HANDSHAKE, 1, mechanism=SCRAM[0])
        connection.ask(SASL_AUTHENTICATE, 2, authBytes=Scram(SCRAM[0], "alice", "guess").first)
        connection.send(request(METADATA, 9, 7, topics=None))
        assert connection.is_closed


def test_the_mechanisms_are_told_to_a_client_with_another_one(served):
    with Connection(served) as connection:
        answer = connection.ask(SASL_HANDSHAKE, 1, mechanism="GSSAPI")
        assert answer["errorCode"] == UNSUPPORTED_MECHANISM
        assert answer["mechanisms"] == ["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"]
        assert log_in(connection, SCRAM[0], "alice", PASSWORD) == 0


def test_a_second_login_on_a_connection_is_refused_and_changes_nothing(served):
    with Connection(served) as connection:
        assert log_in(connection, "PLAIN", "alice", PASSWORD) == 0
        assert connection.ask(SASL_HANDSHAKE, 1, mechanism="PLAIN")["errorCode"] == ILLEGAL_STATE
        answer = connection.ask(SASL_AUTHENTICATE, 2, authBytes=b"\0x\0y")
        assert answer["errorCode"] == ILLEGAL_STATE
        assert is_served(connection)


@pytest.mark.parametrize("mechanism", SCRAM)
def test_version_0_of_a_handshake_is_followed_by_bare_bytes(served, mechanism):
    with Connection(served) as connection:
        assert connection.ask(SASL_HANDSHAKE, 0, mechanism=mechanism)["errorCode"] == 0
        scram = Scram(mechanism, "alice", PASSWORD)
        for make in (lambda _: scram.first, scram.final):
            token = make(locals().get("answer", b""))
            connection.send(struct.pack(">i", len(token)) + token)
            answer = connection.receive(struct.unpack(">i", connection.receive(4))[0])
        assert answer == scram.proved
        assert is_served(connection)


def test_a_client_that_repeats_its_part_of_the_nonce_is_served(served):
    with Connection(served) as connection:
        connection.ask(SASL_HANDSHAKE, 1, mechanism=SCRAM[0])
        scram = Scram(SCRAM[0], "alice", PASSWORD, twice=True)
        first = connection.ask(SASL_AUTHENTICATE, 2, authBytes=scram.first)
        last = connection.ask(SASL_AUTHENTICATE, 2, authBytes=scram.final(first["authBytes"]))
        assert last["errorCode"] == 0


@pytest.mark.parametrize(
    "token",
    [
        b"", b"n,,n=alice", b"p=tls-unique,,n=alice,r=x", b"n,a=root,n=alice,r=x", b"\xff\xfe",
        b"n,,m=x,n=alice,r=x", b"y,", b"n,,r=x,n=alice",
    ],
    ids=repr,
)  # fmt: skip
def test_other_bytes_than_those_of_scram_end_the_login(served, token):
    with Connection(served) as connection:
        connection.ask(SASL_HANDSHAKE, 1, mechanism=SCRAM[0])
        answer = connection.ask(SASL_AUTHENTICATE, 2, authBytes=token)
        assert answer["errorCode"] == FAILED
        assert connection.is_closed


def test_the_last_bytes_of_another_login_prove_nothing(served):
    with Connection(served) as one, Connection(served) as other:
        for each in (one, other):
            each.ask(SASL_HANDSHAKE, 1, mechanism=SCRAM[0])
        scram = Scram(SCRAM[0], "alice", PASSWORD)
        first = one.ask(SASL_AUTHENTICATE, 2, authBytes=scram.first)
        other.ask(SASL_AUTHENTICATE, 2, authBytes=scram.first)
        stolen = scram.final(first["authBytes"])
        assert other.ask(SASL_AUTHENTICATE, 2, authBytes=stolen)["errorCode"] == FAILED


def test_nobody_acts_for_another(served):
    with Connection(served) as connection:
        connection.ask(SASL_HANDSHAKE, 1, mechanism="PLAIN")
        token = f"root\0alice\0{PASSWORD}".encode()
        assert connection.ask(SASL_AUTHENTICATE, 2, authBytes=token)["errorCode"] == FAILED


def test_a_large_request_before_the_login_ends_the_connection(served):
    with Connection(served) as connection:
        connection.send(request(SASL_AUTHENTICATE, 2, 1, authBytes=b"x" * 4000))
        assert connection.is_closed
    assert served.warned("not 8 to 2048")


def test_without_a_password_file_a_login_is_refused_as_by_a_broker(source, tmp_path):
    with serving(source, tmp_path) as found, Connection(found) as connection:
        answer = connection.ask(SASL_HANDSHAKE, 1, mechanism="PLAIN")
        assert (answer["errorCode"], answer["mechanisms"]) == (ILLEGAL_STATE, [])
        assert is_served(connection)


def test_passwords_cross_the_network_only_where_that_is_chosen(source, tmp_path):
    given = ("--password-file", password_file(tmp_path))
    with serving(source, tmp_path, *given) as found, Connection(found) as connection:
        answer = connection.ask(SASL_HANDSHAKE, 1, mechanism="PLAIN")
        assert answer["mechanisms"] == ["SCRAM-SHA-512", "SCRAM-SHA-256"]
    assert "warning" not in found.log.read_text()
    Path(given[1]).chmod(0o644)
    with serving(source, tmp_path, *given, "--sasl-mechanism", "PLAIN") as found:
        pass
    log = found.log.read_text()
    assert "warning: with PLAIN passwords cross the network as they are" in log
    assert f"warning: other users can read or change {given[1]}: chmod 600" in log


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("alice\n", "line 1: not NAME:PASSWORD"),
        ("a:b\n:hidden\n", "line 2: not NAME:PASSWORD"),
        ("a:b\nalice:\n", "line 2: not NAME:PASSWORD"),
        ("alice:hidden\nalice:hidden\n", "line 2: the name is there twice"),
        ("# nobody\n", "has no NAME:PASSWORD"),
        ("", "has no NAME:PASSWORD"),
    ],
)
def test_a_password_file_of_another_form_is_refused_without_a_password(tmp_path, text, reason):
    with pytest.raises(PasswordFileError) as failed:
        read_password_file(password_file(tmp_path, text))
    assert reason in str(failed.value)
    assert "hidden" not in str(failed.value)


def test_a_password_has_everything_behind_the_first_colon(tmp_path):
    path = password_file(tmp_path, "a: b:c #d\r\n")
    assert read_password_file(path) == {"a": " b:c #d"}


def test_sighup_reads_the_passwords_again_and_keeps_them_where_the_file_is_broken(source, tmp_path):
    path = password_file(tmp_path, "alice:old\n")
    with serving(source, tmp_path, "--password-file", path) as served:
        password_file(tmp_path, "alice:new\n")
        served.process.send_signal(signal.SIGHUP)
        assert served.warned("SIGHUP: the source, passwords and certificates are read again")
        password_file(tmp_path, "no colon\n")
        served.process.send_signal(signal.SIGHUP)
        assert served.warned("SIGHUP: ", "not NAME:PASSWORD; the files that were read before")
        with Connection(served) as connection:
            log_in(connection, "SCRAM-SHA-256", "alice", "new")
            assert is_served(connection)
