"""The private keys that open tiered copies, and the data keys under them.

Aiven's plugin encrypts each segment by AES-256-GCM under a key of its own, which the manifest has wrapped by RSA-OAEP
with SHA3-512. Key files are PKCS#8 in PEM; `KAFKAFS_TIERED_KEYS` names them: `ID=FILE.pem`, separated by commas. Old
segments stay under old pairs, so several are common.
"""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from engine.errors import DamagedFileError, KafkaStorageError, SourceError
from engine.files.read_failures import reason_of
from engine.files.source_files import SourceRoot
from engine.log.tiered.manifest import Encryption

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

VARIABLE = "KAFKAFS_TIERED_KEYS"
_MOST_KEYS = 4096
_MOST_PEM = 1 << 20


class DataKeyError(KafkaStorageError):
    """A data key that cannot be had: the message says which private key is missing, or is another one."""


class _PrivateKey(NamedTuple):
    """An RSA key as its factors need it; `modulus_size` in bytes."""

    p: int
    q: int
    dmp1: int
    dmq1: int
    iqmp: int
    modulus_size: int

    def decrypt(self, data: bytes) -> bytes:
        """Return the bytes before RSA, by the Chinese remainder theorem."""
        number = int.from_bytes(data, "big")
        low = pow(number, self.dmq1, self.q)
        high = (pow(number, self.dmp1, self.p) - low) * self.iqmp % self.p
        return (low + high * self.q).to_bytes(self.modulus_size, "big")


def key_files() -> dict[str, str]:
    """Return the files of private keys by id, as the environment names them. Raises SourceError."""
    return _key_files(os.environ.get(VARIABLE, ""))


def add_key_file(text: str) -> None:
    """Add `ID=FILE.pem` to the environment, for this process and those that it starts. Raises SourceError."""
    key_id, separator, path = text.partition("=")
    if "," in path:
        raise SourceError(f"{path} has a comma: a key file's path must have none")
    absolute = f"{key_id}{separator}{os.path.abspath(path) if path else ''}"
    known = [entry for entry in os.environ.get(VARIABLE, "").split(",") if entry]
    _key_files(absolute)
    if absolute not in known:
        os.environ[VARIABLE] = ",".join([*known, absolute])


@lru_cache(maxsize=16)
def _key_files(text: str) -> dict[str, str]:
    found = {}
    for entry in filter(None, map(str.strip, text.split(","))):
        key_id, _, path = entry.partition("=")
        if not key_id or not path:
            raise SourceError(
                f"{entry} names no key of tiered copies", hint="as in key-1=/etc/keys/key-1.pem"
            )
        found[key_id] = path
    return found


def may_open(encryption: Encryption | None) -> bool:
    """Return whether a copy is not encrypted, or its key is given. Raises SourceError."""
    return encryption is None or encryption.key_id in key_files()


def cipher_of(encryption: Encryption) -> AESGCM:
    """Return the cipher of a copy. Raises DataKeyError, SourceError."""
    files = key_files()
    path = files.get(encryption.key_id)
    if path is None:
        others = f" (given: {', '.join(sorted(files))})" if files else ""
        raise DataKeyError(
            f"it is encrypted under key {encryption.key_id}, which is not given{others}:"
            f" --tiered-key {encryption.key_id}=FILE.pem"
        )
    return _cipher(encryption, path)


@lru_cache(maxsize=_MOST_KEYS)
def _cipher(encryption: Encryption, path: str) -> AESGCM:
    key = _private_key(path)
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    data_key = _unwrapped(key, encryption.wrapped)
    if data_key is None or len(data_key) not in {16, 24, 32}:
        raise DataKeyError(
            f"{path} does not open the data key: another pair than {encryption.key_id} of the"
            " manifest, or that is damaged"
        )
    return AESGCM(data_key)


@lru_cache(maxsize=64)
def _private_key(path: str) -> _PrivateKey:
    try:
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError:
        raise DataKeyError(
            "it is encrypted, which needs the package cryptography: pip install 'kafkafs[tiered]'"
        ) from None
    folder, name = os.path.split(os.path.realpath(path))
    try:
        with SourceRoot(folder) as root:
            pem = root.read(name, limit=_MOST_PEM)
    except (OSError, DamagedFileError) as error:
        reason = reason_of(error)
        raise DataKeyError(f"the key file {path} cannot be read: {reason}") from None
    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, RSAPrivateKey):
        raise DataKeyError(f"{path} is no private RSA key in PEM without a passphrase")
    numbers = key.private_numbers()
    size = (key.key_size + 7) // 8
    return _PrivateKey(
        numbers.p, numbers.q, numbers.dmp1, numbers.dmq1, numbers.iqmp, modulus_size=size
    )


def _unwrapped(key: _PrivateKey, wrapped: bytes) -> bytes | None:
    """Return the message of RSA-OAEP (RFC 8017, 7.1.2) with SHA3-512 and an empty label; None for a wrong key.

    The package cryptography has no OAEP with SHA3-512.
    """
    size = hashlib.sha3_512().digest_size
    if len(wrapped) != key.modulus_size or key.modulus_size < 2 * size + 2:
        return None
    block = key.decrypt(wrapped)
    masked_seed, masked = block[1 : 1 + size], block[1 + size :]
    seed = _xor(masked_seed, _mask(masked, size))
    data = _xor(masked, _mask(seed, len(masked)))
    padding, separator, message = data[size:].partition(b"\x01")
    is_right = block[0] == 0 and data[:size] == hashlib.sha3_512().digest()
    return message if is_right and separator and not any(padding) else None


def _mask(seed: bytes, size: int) -> bytes:
    """Return MGF1 of a seed."""
    made = b""
    while len(made) < size:
        counter = len(made) // hashlib.sha3_512().digest_size
        made += hashlib.sha3_512(seed + counter.to_bytes(4, "big")).digest()
    return made[:size]


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
