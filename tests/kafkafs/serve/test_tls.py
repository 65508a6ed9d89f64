"""Under TLS answers are the same bytes, and nobody without TLS or the right certificate gets any."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from engine.record.memory_records import MemoryRecords
from kafkafs.cli import cli
from tests.fixtures_data import DATA, copy_of
from tests.kafkafs.serve.connection import Connection, request
from tests.kafkafs.serve.serving import Served, serving

FETCH, METADATA = 1, 3
TLS = DATA / "tls"
CERTIFICATE = ("--tls-cert", str(TLS / "server.pem"), "--tls-key", str(TLS / "server.key"))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_of("current", tmp_path_factory.mktemp("source"), ["orders-0", "weird-0"])


@pytest.fixture(scope="module")
def served(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(source, tmp_path_factory.mktemp("log"), *CERTIFICATE) as found:
        yield found


def client(certificate: str | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(TLS / "server.pem"))
    if certificate is not None:
        context.load_cert_chain(TLS / f"{certificate}.pem", TLS / f"{certificate}.key")
    return context


def fetched(connection: Connection, topic: str) -> bytes:
    most = 1 << 30
    partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": most}
    answer = connection.ask(
        FETCH, 12, replicaId=-1, maxWaitMs=0, minBytes=0, maxBytes=most, sessionEpoch=-1,
        topics=[{"topic": topic, "partitions": [partition]}],
    )  # fmt: skip
    return answer["responses"][0]["partitions"][0]["records"]


def is_refused(served: Served, context: ssl.SSLContext) -> bool:
    """Whether a client gets no answer; with TLS 1.3 it learns of it only when it reads."""
    try:
        with Connection(served, context) as connection:
            connection.send(request(METADATA, 9, 1, topics=None))
            return connection.receive(1) == b""
    except (ssl.SSLError, ConnectionError):
        return True


@pytest.mark.parametrize("topic", ["orders", "weird"])
def test_the_bytes_under_tls_are_those_of_the_file(source, served, topic):
    with Connection(served, client()) as connection:
        got = fetched(connection, topic)
    files = b"".join(path.read_bytes() for path in sorted(source.glob(f"{topic}-0/*.log")))
    assert got
    assert files.startswith(got)
    for batch in MemoryRecords(got).batches():
        batch.ensure_valid()


def test_a_client_that_does_not_speak_tls_gets_nothing(served):
    with Connection(served) as connection:
        connection.send(request(METADATA, 9, 1, topics=None))
        answer = connection.receive(1 << 16)
    assert b"orders" not in answer
    assert served.warned("connection closed: the client does not speak TLS")


def test_a_client_that_speaks_tls_to_a_server_without_is_told_in_the_log(source, tmp_path):
    with serving(source, tmp_path) as found:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            Connection(found, client())
        assert found.warned("the client speaks TLS, the server does not: see --tls-cert")


def test_versions_of_tls_below_1_2_are_refused(served):
    old = client()
    with pytest.warns(DeprecationWarning, match="TLSVersion.TLSv1_1"):
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("DEFAULT:@SECLEVEL=0")
    assert is_refused(served, old)


def test_a_client_that_does_not_finish_its_handshake_holds_up_nobody(served):
    with Connection(served) as half, Connection(served, client()) as other:
        half.send(b"\x16\x03\x01\x02\x00\x01")
        assert fetched(other, "orders")


def test_with_an_authority_of_clients_only_its_clients_are_served(source, tmp_path):
    wanted = ("--tls-client-ca", str(TLS / "server.pem"))
    with serving(source, tmp_path, *CERTIFICATE, *wanted) as found:
        with Connection(found, client("server")) as connection:
            assert fetched(connection, "orders")
        for certificate in (None, "other"):
            assert is_refused(found, client(certificate))
        assert found.warned("connection closed: no TLS: peer did not return a certificate")
        assert found.warned("connection closed: no TLS: certificate verify failed")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--tls-cert", "server.pem"], "--tls-cert and --tls-key are needed together"),
        (["--tls-key", "server.key"], "--tls-cert and --tls-key are needed together"),
        (["--tls-client-ca", "server.pem"], "--tls-client-ca needs --tls-cert"),
        (["--tls-cert", "none", "--tls-key", "server.key"], "none: No such file"),
        (["--tls-cert", "server.pem", "--tls-key", "other.key"], "is not the key of the certificate"),
        (["--tls-cert", "server.pem", "--tls-key", "encrypted.key"], "is encrypted"),
        (["--tls-cert", "server.key", "--tls-key", "server.key"], "are not a certificate and its key"),
        (["--sasl-mechanism", "PLAIN"], "--sasl-mechanism needs --password-file"),
        (["--password-file", "none"], "none: No such file"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit_are_refused_with_a_reason(source, monkeypatch, options, reason):
    monkeypatch.chdir(TLS)
    done = CliRunner().invoke(cli, ["serve", str(source), *options])
    assert done.exit_code == 2
    assert reason in done.output
