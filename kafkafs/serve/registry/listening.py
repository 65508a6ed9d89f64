"""The registry's REST API on an address of its own, while the server runs."""

from __future__ import annotations

import logging
from functools import partial

import trio

from engine.version import __version__
from kafkafs.api.source_logs import SourceLogs
from kafkafs.schemas.sources.source_schemas import SourceSchemas
from kafkafs.serve.network.http import HttpAnswer, HttpRequest, HttpServer
from kafkafs.serve.registry.rest import RestApi

logger = logging.getLogger(__name__)

_THREADS = 4


def registry_server(logs: SourceLogs, cluster_id: str | None) -> HttpServer:
    """Return a server of the schemas in a source.

    Args:
        logs: the open source, as of a moment or now.
        cluster_id: id of the cluster; None if it is not known.
    """
    schemas = SourceSchemas(logs.source)
    api = RestApi(schemas.store, cluster_id, f"kafkafs {__version__}")
    limiter = trio.CapacityLimiter(_THREADS)

    async def answer(request: HttpRequest) -> HttpAnswer:
        return await trio.to_thread.run_sync(partial(api.answer, request), limiter=limiter)

    return HttpServer(answer)
