"""The GUID of a schema."""

from hashlib import md5
from uuid import UUID

from kafkafs.schemas.registry.guid import guid_of
from kafkafs.schemas.schema import Reference


def test_references_metadata_and_rules_are_hashed_in_the_registrys_order() -> None:
    references = (Reference("shop.Item", "items", 258),)
    metadata = {
        "tags": {"**.ssn": ["PII", "A"], "**": ["x"]},
        "properties": {"owner": "me", "a": "b"},
        "sensitive": ["s2", "s1", "s1"],
    }
    rules = {
        "domainRules": [
            {"name": "check", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true"}
        ],
        "migrationRules": [{"name": "up", "params": {"b": "2", "a": "1"}, "disabled": True}],
        "enableAt": "CLIENT",
    }
    wanted = (
        b'"string"'
        b"shop.Itemitems\x00\x00\x01\x02"
        b"\x01**x**.ssnAPIIabownermes1s2"
        b"\x01upa1b2\x01checkCONDITIONWRITECELtrueCLIENT"
    )
    assert guid_of('"string"', references, metadata, rules) == str(UUID(bytes=md5(wanted).digest()))


def test_empty_metadata_is_not_no_metadata() -> None:
    assert guid_of('"string"', metadata={}) != guid_of('"string"')
