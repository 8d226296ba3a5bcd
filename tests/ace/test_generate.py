"""Asking for queries: until there are enough, or no more come; and keeping them in a folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from viper.ace.generate import (
    BARREN,
    GeneratedQueries,
    QueryStore,
    Request,
    generate,
    read_description,
    read_query_file,
)
from viper.errors import ScriptExhaustedError, StoreError, UsageError
from viper.models.llm.protocol import Completion, Sampling
from viper.models.llm.scripted import ScriptedLLM
from viper.schema import Query

THINGS = ("cube", "ball", "ring", "cone", "lamp", "chair", "door")
SHEET = "Pictures of a table."


def listed(*things: str) -> str:
    return "\n".join(f"{number}. the {thing}" for number, thing in enumerate(things, start=1))


def wanting(count: int, **changes: object) -> Request:
    return Request(**{"description": SHEET, "task": "ground", "count": count, **changes})  # type: ignore[arg-type]


def texts(generated: GeneratedQueries) -> list[str]:
    return [query.text.removeprefix("the ") for query in generated.queries]


def test_it_asks_until_there_are_enough() -> None:
    llm = ScriptedLLM([listed(*THINGS[:3]), listed(*THINGS[1:5]), listed(*THINGS)])
    found = generate(llm, wanting(6, seed=3))
    assert texts(found) == list(THINGS[:6]) and found.replies == 3
    prompts = [call.prompt for call in llm.calls]
    assert "6 queries, one a line" in prompts[0] and SHEET in prompts[0]
    assert "3 queries, one a line" in prompts[1] and "the cube\nthe ball\nthe ring\n" in prompts[1]
    assert [c.sampling and c.sampling.seed for c in llm.calls] == [3000, 3001, 3002]
    assert all(call.sampling and call.sampling.temperature > 0 for call in llm.calls)


def test_it_gives_up_where_nothing_new_comes() -> None:
    llm = ScriptedLLM([listed("cube"), "Sure!", listed("cube"), "", listed("ball")])
    found = generate(llm, wanting(6))
    assert texts(found) == ["cube"] and (found.replies, found.barren) == (1 + BARREN, BARREN)
    llm = ScriptedLLM([listed("cube"), "Sure!", listed("ball"), "", listed("ring")])
    found = generate(llm, wanting(6))
    assert texts(found) == ["cube", "ball", "ring"] and found.replies == wanting(6).most_replies


def test_it_never_asks_more_often_than_it_may() -> None:
    llm = ScriptedLLM(lambda prompt: f"the thing called {'a' * len(llm.calls)}b")
    request = wanting(30)
    found = generate(llm, request)
    assert found.replies == request.most_replies == len(llm.calls) == len(found.queries)
    assert generate(llm, request, most=2).replies == 2


def test_it_goes_on_from_what_is_there() -> None:
    so_far = generate(ScriptedLLM([listed("cube", "ball")]), wanting(4), most=1)
    llm, seen = ScriptedLLM([listed("ring", "cone")]), list[int]()
    found = generate(llm, wanting(4), so_far, on_reply=lambda one: seen.append(len(one.queries)))
    assert texts(found) == ["cube", "ball", "ring", "cone"] and seen == [4]
    assert generate(ScriptedLLM(), wanting(4), found) == found


def test_the_model_s_own_failure_passes_on() -> None:
    with pytest.raises(ScriptExhaustedError):
        generate(ScriptedLLM(), wanting(1))


class Cut(ScriptedLLM):
    """Runs out of tokens in the middle of its last line."""

    def generate(self, prompts: list[str], sampling: Sampling) -> list[list[Completion]]:  # type: ignore[override]
        return [[Completion("the cube\nthe ball behi", 1, 1, "length")]]


def test_a_line_that_was_cut_is_no_query() -> None:
    assert texts(generate(Cut(), wanting(2), most=1)) == ["cube"]


def test_a_small_context_is_asked_for_fewer_and_a_long_sheet_is_refused() -> None:
    llm = ScriptedLLM([listed("cube")], max_context=1000)
    generate(llm, wanting(40), most=1)
    call = llm.calls[0]
    assert "10 queries, one a line" in call.prompt and call.sampling is not None
    assert llm.count_tokens(call.prompt) + call.sampling.max_tokens <= 1000
    with pytest.raises(UsageError, match="reads 1000; shorten the sheet, or .* --queries-from"):
        generate(llm, wanting(40, description="word " * 900))


def test_queries_are_kept_and_read_again(tmp_path: Path) -> None:
    request = wanting(3, task="choice")
    store = QueryStore(tmp_path / "w", request, "llm@1")
    assert store.load() == GeneratedQueries()
    found = GeneratedQueries((Query("what stops?", "choice", options=("a ball", "a | b")),), 4, 1)
    store.save(found)
    assert QueryStore(tmp_path / "w", request, "llm@1").load() == found
    assert read_query_file(tmp_path / "w" / "queries.jsonl", "choice") == list(found.queries)


def test_where_there_is_no_query_nothing_is_kept(tmp_path: Path) -> None:
    QueryStore(tmp_path / "w", wanting(3), "llm@1").save(GeneratedQueries((), 3, 3))
    assert not (tmp_path / "w").exists()


def test_queries_of_another_request_are_refused(tmp_path: Path) -> None:
    found = GeneratedQueries((Query("the cube", "ground"),), 1)
    QueryStore(tmp_path, wanting(3), "llm@1").save(found)
    for request, llm, said in (
        (wanting(4), "llm@1", "queries: 3 in the folder, 4 now"),
        (wanting(3, description="Other."), "llm@1", "sheet: "),
        (wanting(3), "llm@2", "llm: llm@1 in the folder, llm@2 now"),
    ):
        with pytest.raises(UsageError, match=said):
            QueryStore(tmp_path, request, llm).load()
    for broken in ("{", "[]", json.dumps({"asked": {}, "replies": None, "barren": 0})):
        (tmp_path / "request.json").write_text(broken)
        with pytest.raises(StoreError, match="damaged"):
            QueryStore(tmp_path, wanting(3), "llm@1").load()


def test_a_file_of_queries(tmp_path: Path) -> None:
    path = tmp_path / "q.txt"
    lines = ("what stops? | a ball | a cube", "", '{"query": "x y z?", "options": ["1", "2"]}',
             "What stops? | no | yes")  # fmt: skip
    path.write_text("\ufeff" + "\n".join(lines), encoding="utf-8")
    assert read_query_file(path, "choice") == [
        Query("what stops?", "choice", options=("a ball", "a cube")),
        Query("x y z?", "choice", options=("1", "2")),
    ]
    with pytest.raises(UsageError, match=r"q\.txt:1: options, which a ground has none of"):
        read_query_file(path, "ground")
    path.write_text("\n")
    with pytest.raises(UsageError, match="no query; one a line"):
        read_query_file(path, "ground")


def test_a_sheet_is_some_text(tmp_path: Path) -> None:
    path = tmp_path / "s.txt"
    for content, said in ((b" \n", "empty"), (b"x" * 40_001, "40001 char"), (b"\xff", "as text")):
        path.write_bytes(content)
        with pytest.raises(UsageError, match=said):
            read_description(path)
    path.write_text(f" {SHEET}\n")
    assert read_description(path) == SHEET
