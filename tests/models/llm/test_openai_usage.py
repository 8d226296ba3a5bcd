"""Tokens and money, of the process and of each completion."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from openai_bench import Connect, Serve
from openai_server import completion, refusal, said

from viper.errors import UsageError
from viper.models.llm.protocol import Completion, Sampling
from viper.models.llm.wrapped import CachedLLM, DeferredLLM
from viper.schema import Usage
from viper.storage.sqlite import SqliteStore
from viper.strategies.base import UsageMeter

PRICES = {"prompt": 2.0, "completion": 8.0}

THREE_DOLLARS = (500_000, 250_000)
"""Tokens of prompt and completion that cost so much, without rounding."""


def test_usage_and_cost_are_counted(serve: Serve, connect: Connect) -> None:
    server = serve([refusal(500)], otherwise=said(usage=(1000, 200)))
    llm = connect(server, price_per_million={"prompt": 2.0, "completion": 10.0})
    before = llm.usage
    llm.generate(["a", "b", "c"], Sampling())
    usage = llm.usage
    assert (usage.requests, usage.retries) == (4, 1)
    assert (usage.prompt_tokens, usage.completion_tokens) == (3000, 600)
    assert usage.cost_usd == pytest.approx(0.012)
    assert before.requests == 0


def test_without_a_price_the_cost_is_not_known(serve: Serve, connect: Connect) -> None:
    llm = connect(serve())
    llm.generate(["a"], Sampling())
    assert llm.usage.cost_usd is None


def test_a_server_that_counts_no_tokens_is_helped_out(serve: Serve, connect: Connect) -> None:
    server = serve(otherwise=said(lambda request, index: "12345", usage=None))
    found = connect(server).generate(["12345678"], Sampling())[0][0]
    assert (found.prompt_tokens, found.completion_tokens) == (2, 2)


def test_tokens_are_counted_by_a_local_tokenizer_and_keep_within_the_context(
    serve: Serve, connect: Connect, model_folder: Path
) -> None:
    server = serve()
    llm = connect(server, tokenizer=model_folder, max_context=20)
    letters = "x y z w"
    assert (llm.count_tokens(letters), connect(server).count_tokens(letters)) == (8, 2)
    llm.generate(["the red cube"], Sampling(max_tokens=50))
    prompt_tokens = llm.count_tokens("the red cube")
    assert 20 - prompt_tokens - 2 <= server.received[0].body["max_tokens"] <= 20 - prompt_tokens
    with pytest.raises(UsageError, match="fills the whole context"):
        llm.generate(["the red cube " * 20], Sampling())
    assert len(server.received) == 1


def _costs(attempts: Sequence[list[Completion]]) -> list[list[float | None]]:
    return [[item.cost_usd for item in attempt] for attempt in attempts]


def test_a_completion_carries_what_its_request_cost(serve: Serve, connect: Connect) -> None:
    # A failed request and its retry: what the first one cost is not known and not counted.
    server = serve([refusal(500)], otherwise=said(usage=THREE_DOLLARS))
    llm = connect(server, price_per_million=PRICES)
    assert _costs(llm.generate(["a", "b"], Sampling())) == [[3.0], [3.0]]


def test_samples_of_one_request_share_its_cost(serve: Serve, connect: Connect) -> None:
    warm = Sampling(temperature=0.7, n=3)
    llm = connect(serve(otherwise=said(usage=THREE_DOLLARS)), price_per_million=PRICES)
    assert _costs(llm.generate(["p"], warm)) == [[1.0] * 3]
    # Asked again for what was missing: two requests, the first one with two texts.
    llm = connect(serve(otherwise=said(most=2, usage=THREE_DOLLARS)), price_per_million=PRICES)
    assert _costs(llm.generate(["p"], warm)) == [[1.5, 1.5, 3.0]]
    # Charged for five texts and given three: the three cost as much as five.
    surplus = completion("abcde", usage=THREE_DOLLARS)
    llm = connect(serve([surplus]), price_per_million=PRICES)
    assert _costs(llm.generate(["p"], warm)) == [[1.0] * 3]
    assert llm.usage.cost_usd == 3.0


def test_a_greedy_text_that_is_repeated_is_charged_once(serve: Serve, connect: Connect) -> None:
    llm = connect(serve(otherwise=said(usage=THREE_DOLLARS)), price_per_million=PRICES)
    assert _costs(llm.generate(["p"], Sampling(n=3))) == [[3.0, 0.0, 0.0]]
    assert llm.usage.cost_usd == 3.0


@pytest.mark.parametrize("prices", [PRICES, None])
def test_an_answer_from_the_cache_is_free_where_prices_are_known(
    prices: dict[str, float] | None, serve: Serve, connect: Connect
) -> None:
    endpoint = connect(serve(otherwise=said(usage=THREE_DOLLARS)), price_per_million=prices)
    llm = CachedLLM(CachedLLM(DeferredLLM(lambda: endpoint)))
    asked, free = (3.0, 0.0) if prices else (None, None)
    assert _costs(llm.generate(["a", "b", "a"], Sampling())) == [[asked], [asked], [free]]
    assert _costs(llm.generate(["a"], Sampling())) == [[free]]
    assert _costs(CachedLLM(llm).generate(["a"], Sampling())) == [[free]]


def test_prices_are_those_of_now_and_not_of_when_an_answer_was_kept(
    serve: Serve, connect: Connect
) -> None:
    store, server = SqliteStore(), serve()
    for prices, cost_usd in ((PRICES, 0.0), (None, None)):
        CachedLLM(connect(server), store).generate(["a"], Sampling())
        llm = CachedLLM(connect(server, price_per_million=prices), store)
        assert _costs(llm.generate(["a"], Sampling())) == [[cost_usd]]


def test_a_run_sums_the_costs_that_are_known() -> None:
    meter = UsageMeter()
    meter.add(Completion("a", 10, 1))
    assert meter.snapshot() == Usage(1, 10, 1)
    assert meter.snapshot().cost_usd is None
    for cost_usd in (0.0, 0.25, None, 0.5):
        meter.add(Completion("a", 10, 1, cost_usd=cost_usd))
    assert meter.snapshot() == Usage(5, 50, 5, cost_usd=0.75)
