"""Answers about who may do what: DescribeAcls, DescribeUserScramCredentials, DescribeDelegationToken.

Nothing here holds a secret: credentials are shown by mechanism and iterations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, Final

from engine.errors import CorruptMessageError
from engine.replay.cluster_tables import (
    ACL_RESOURCE_TYPES,
    MECHANISMS,
    OPERATIONS,
    PATTERN_TYPES,
    PERMISSIONS,
)
from kafkafs.serve.cluster_view import ClusterView
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.request import Fields, Request

_UNKNOWN, _ANY, _MATCH = 0, 1, 2
"""Codes of filters: one that is not known, every value, every pattern that a name matches."""
_WILDCARD = "*"
_LITERAL, _PREFIXED = 3, 4


def _codes(names: Mapping[int, str]) -> dict[str, int]:
    return {name: code for code, name in names.items()}


_CODES: Final = {
    "resourceType": _codes(ACL_RESOURCE_TYPES),
    "patternType": _codes(PATTERN_TYPES),
    "operation": _codes(OPERATIONS),
    "permissionType": _codes(PERMISSIONS),
}
_FILTERS: Final = ("resourceTypeFilter", "patternTypeFilter", "operation", "permissionType")
_MECHANISM_CODES: Final = _codes(MECHANISMS)


def describe_acls(cluster: ClusterView, request: Request) -> Fields:
    """Answer DescribeAcls: the ACLs of the cluster's metadata that a filter lets through.

    Raises:
        CorruptMessageError: the filter has the code for unknown, at which brokers end the connection.
    """
    wanted = request.fields
    if _UNKNOWN in [wanted[name] for name in _FILTERS]:
        raise CorruptMessageError("the filter of a DescribeAcls request has an unknown element")
    image = cluster.image()
    if image is None:
        return {
            "errorCode": ErrorCode.SECURITY_DISABLED,
            "errorMessage": "the source has no metadata of the cluster, so ACLs are unknown",
        }
    acls = (_coded(item.facts) for item in image.table("acls").values())
    found = sorted((acl for acl in acls if _passes(wanted, acl)), key=_resource)
    return {
        "errorCode": ErrorCode.NONE,
        "resources": [
            {
                "resourceType": kind,
                "resourceName": name,
                "patternType": pattern,
                "acls": [
                    {
                        name: acl[name]
                        for name in ("principal", "host", "operation", "permissionType")
                    }
                    for acl in of_resource
                ],
            }
            for (kind, name, pattern), of_resource in groupby(found, _resource)
        ],
    }


def _coded(facts: Mapping[str, Any]) -> Fields:
    """Return an ACL with the protocol's codes for names; 0 for those without one."""
    return dict(facts) | {name: codes.get(facts[name], _UNKNOWN) for name, codes in _CODES.items()}


def _resource(acl: Fields) -> tuple[int, str, int]:
    return acl["resourceType"], acl["resourceName"], acl["patternType"]


def _passes(wanted: Fields, acl: Fields) -> bool:
    """Return whether a filter lets an ACL through."""
    return (
        wanted["resourceTypeFilter"] in (_ANY, acl["resourceType"])
        and _has_name(wanted["patternTypeFilter"], wanted["resourceNameFilter"], acl)
        and wanted["principalFilter"] in (None, acl["principal"])
        and wanted["hostFilter"] in (None, acl["host"])
        and wanted["operation"] in (_ANY, acl["operation"])
        and wanted["permissionType"] in (_ANY, acl["permissionType"])
    )


def _has_name(pattern: int, name: str | None, acl: Fields) -> bool:
    """Return whether an ACL is of a pattern and a resource's name."""
    if pattern not in (_ANY, _MATCH, acl["patternType"]):
        return False
    known = acl["resourceName"]
    if name is None or name == known:
        return True
    if pattern != _MATCH:
        return False
    if acl["patternType"] == _LITERAL:
        return bool(known == _WILDCARD)
    return acl["patternType"] == _PREFIXED and name.startswith(known)


def describe_scram(cluster: ClusterView, request: Request) -> Fields:
    """Answer DescribeUserScramCredentials: mechanisms and iterations of users."""
    image = cluster.image()
    credentials: dict[str, list[Fields]] = {}
    for item in () if image is None else image.table("users").values():
        facts = item.facts
        mechanism = _MECHANISM_CODES.get(facts["mechanism"], _UNKNOWN)
        shown = {"mechanism": mechanism, "iterations": facts["iterations"]}
        credentials.setdefault(facts["name"], []).append(shown)
    users = request.fields["users"]
    asked_for = Counter(each["name"] for each in users) if users else dict.fromkeys(credentials, 1)
    results = [_credentials(name, count, credentials) for name, count in asked_for.items()]
    return {"errorCode": ErrorCode.NONE, "results": results}


def _credentials(name: str, count: int, known: Mapping[str, Iterable[Fields]]) -> Fields:
    if count > 1:
        return {
            "user": name,
            "errorCode": ErrorCode.DUPLICATE_RESOURCE,
            "errorMessage": f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}",
        }
    if name not in known:
        return {
            "user": name,
            "errorCode": ErrorCode.RESOURCE_NOT_FOUND,
            "errorMessage": f"Attempt to describe a user credential that does not exist: {name}",
        }
    return {"user": name, "errorCode": ErrorCode.NONE, "credentialInfos": known[name]}


def describe_tokens(_: ClusterView, __: Request) -> Fields:
    """Answer DescribeDelegationToken: this server takes none."""
    return {"errorCode": ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED}
