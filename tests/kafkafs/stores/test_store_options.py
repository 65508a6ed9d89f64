"""Options and URLs of stores: what is one, and that no secret is."""

from __future__ import annotations

import errno

import pytest

from engine.errors import STORE_FAILURES, SourceError
from engine.files.read_failures import IMAGE_FIRST, is_of_device, way_out
from engine.files.unreadable import MEDIA_ERRORS
from kafkafs.stores.mirror_folder import path_of
from kafkafs.stores.object_client import failure
from kafkafs.stores.store_options import checked_url, is_store, parse_options


def test_urls_of_stores_are_known_by_their_scheme() -> None:
    stores = ("s3://b/p", "gs://b", "az://c/p", "s3a://b")
    assert [is_store(each) for each in stores] == [True] * 4
    assert not any(map(is_store, ("/s3://b", "s3:b", "file:///d", "http://h/p", "orders-0")))
    assert checked_url("s3://b/p/") == "s3://b/p"


def test_options_of_all_stores_have_names_and_others_are_passed_on() -> None:
    given = ["endpoint=http://h:1", "anonymous=true", "space=2G", "virtual_hosted_style_request=x"]
    options = parse_options(given)
    assert (options.endpoint, options.is_anonymous, options.space) == ("http://h:1", True, 2 << 30)
    assert options.others == {"virtual_hosted_style_request": "x"}


@pytest.mark.parametrize(
    "text",
    ["secret_access_key=x", "account_key=x", "token=x", "sas_token=x", "aws_session_token=x"],
)
def test_no_secret_is_an_option(text: str) -> None:
    with pytest.raises(SourceError, match="is a secret") as caught:
        parse_options([text])
    assert "=x" not in str(caught.value)


@pytest.mark.parametrize("text", ["endpoint", "endpoint=", "space=much"])
def test_what_is_no_option_is_refused(text: str) -> None:
    with pytest.raises(SourceError, match=r"NAME=VALUE|no size"):
        parse_options([text])


@pytest.mark.parametrize("key", ["a//b", "../a", "a/./b", "a/", "", "x" * 256, "a\0b"])
def test_a_key_that_no_file_can_have_has_no_path(key: str) -> None:
    assert path_of(key) is None


def test_each_failure_of_a_store_is_one_of_its_own_with_a_way_out() -> None:
    assert set(STORE_FAILURES) <= MEDIA_ERRORS
    for number in STORE_FAILURES:
        name = errno.errorcode[number]
        assert way_out(name)
        assert not is_of_device(name), IMAGE_FIRST


class PermissionDeniedError(Exception):
    """As obstore names it."""


@pytest.mark.parametrize(
    ("error", "number"),
    [
        (FileNotFoundError("x"), errno.ENOMEDIUM),
        (PermissionDeniedError("status 403 <Code>AccessDenied</Code>"), errno.EKEYREJECTED),
        (PermissionDeniedError("<Code>InvalidObjectState</Code>"), errno.ENONET),
        (Exception("status: 403 Forbidden"), errno.EKEYREJECTED),
        (Exception("status: 503 <Code>SlowDown</Code>"), errno.EUSERS),
        (Exception("status: 500 <Code>InternalError</Code>"), errno.ECOMM),
        (Exception("error sending request\nDebug source: many lines"), errno.ENOLINK),
    ],
)
def test_an_error_of_the_library_becomes_one_line(error: Exception, number: int) -> None:
    found = failure(error)
    assert found.errno == number
    assert "\n" not in str(found)
