"""Each declared API has one way to be answered, and is told to clients with the versions of its messages."""

from __future__ import annotations

from kafkafs.serve.broker import ASIDE, AT_ONCE, LOOK_UPS
from kafkafs.serve.handlers.admin.answers import ADMIN_ANSWERS
from kafkafs.serve.handlers.api_versions import versions
from kafkafs.serve.handlers.groups.answers import GROUP_ANSWERS
from kafkafs.serve.handlers.refusals import REFUSALS
from kafkafs.serve.protocol.api import Api

TABLES = (ADMIN_ANSWERS, GROUP_ANSWERS, REFUSALS, AT_ONCE, ASIDE, LOOK_UPS, {Api.FETCH: None})


def test_each_api_stands_in_one_table_of_answers() -> None:
    assert sorted(api for table in TABLES for api in table) == sorted(Api)


def test_a_request_and_its_answer_have_the_same_versions() -> None:
    for api in Api:
        request, answer = api.request, api.response
        assert (request.name, answer.name) == (f"{api.title}Request", f"{api.title}Response")
        assert (request.first_version, request.last_version, request.flexible_since) == (
            (answer.first_version, answer.last_version, answer.flexible_since)
        )


def test_clients_are_told_the_versions_of_each_api() -> None:
    told = {each["apiKey"]: (each["minVersion"], each["maxVersion"]) for each in versions()["apiKeys"]}  # fmt: skip
    assert told == {
        api: (0 if api is Api.PRODUCE else api.request.first_version, api.request.last_version)
        for api in Api
    }
