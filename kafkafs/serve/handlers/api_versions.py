"""Answer ApiVersions: the served APIs with their versions, and the features of the source's cluster."""

from __future__ import annotations

import re

from kafkafs.serve.cluster_view import ClusterView
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.handlers.features import features
from kafkafs.serve.protocol.api import Api
from kafkafs.serve.request import Fields, Request

_OLDEST_STATED = {Api.PRODUCE: 0}
"""First versions that brokers state though they do not serve them: releases of librdkafka look for them."""
_SOFTWARE_SINCE = 3
_SOFTWARE = re.compile("[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")
"""Names and versions of client software that brokers take."""


def versions(error: ErrorCode = ErrorCode.NONE) -> Fields:
    """Return the APIs with their versions."""
    found = []
    for api in Api:
        first = _OLDEST_STATED.get(api, api.request.first_version)
        found.append({"apiKey": api, "minVersion": first, "maxVersion": api.request.last_version})
    return {"errorCode": error, "apiKeys": found}


def api_versions(cluster: ClusterView, request: Request) -> Fields:
    """Answer ApiVersions."""
    if request.version < _SOFTWARE_SINCE:
        return versions()
    stated = [request.fields["clientSoftwareName"], request.fields["clientSoftwareVersion"]]
    if not all(map(_SOFTWARE.fullmatch, stated)):
        return {"errorCode": ErrorCode.INVALID_REQUEST}
    return versions() | features(cluster, request.version)
