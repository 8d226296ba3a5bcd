"""Where requests go, and options that are refused."""

import sys
from typing import Any

import pytest
from openai_bench import Serve

from viper.errors import MissingExtraError, UsageError
from viper.models.llm.openai_llm import OpenAILLM
from viper.models.llm.protocol import Sampling

pytestmark = pytest.mark.usefixtures("environment")


def test_the_address_comes_from_the_profile_then_the_environment(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = serve(), serve()
    monkeypatch.setenv("OPENAI_BASE_URL", here.url)
    OpenAILLM("m").generate(["p"], Sampling())
    OpenAILLM("m", base_url=there.url).generate(["p"], Sampling())
    assert (len(here.received), len(there.received)) == (1, 1)


@pytest.mark.parametrize(
    "address",
    ["localhost:8000", "ftp://host/v1", "http://", "http://me:pass@host/v1", "http://h:x"],
)
def test_an_address_that_is_none_or_holds_a_password_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="base_url is no plain address") as caught:
        OpenAILLM("m", base_url=address)
    assert "pass@" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"api": "responses"}, "known: chat, completions"),
        ({"timeout_s": 0}, "timeout_s is 0"),
        ({"concurrency": 0}, "concurrency is 0"),
        ({"max_retries": -1}, "max_retries is -1"),
        ({"price_per_million": {"prompt": 1.0}}, "price_per_million must be"),
        ({"price_per_million": {"prompt": -1, "completion": 2}}, "price_per_million must be"),
        ({"tokenizer": "nowhere"}, "no tokenizer in the folder nowhere"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        OpenAILLM("m", base_url="http://localhost:1/v1", **options)


def test_without_the_package_the_pip_line_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(MissingExtraError, match='pip install "viper-reasoner"'):
        OpenAILLM("m")
