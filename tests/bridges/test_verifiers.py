"""Rollouts of verifiers with its own harness and servers, and a scripted model on this machine."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.bridges import episodes
from tests.bridges.episodes import RULES, SCRIPTS, SEEDS, Played
from tests.bridges.needed import need
from tests.processes import descendants

need("verifiers", "verifiers")

import verifiers.v1 as vf  # noqa: E402
from verifiers.v1.harnesses import NullHarness  # noqa: E402
from verifiers.v1.mcp.server import _call_state  # noqa: E402
from verifiers.v1.runtimes import subprocess as runtimes  # noqa: E402

from viper.env.episode import RewardWeights, Rules  # noqa: E402
from viper.env.verifiers import CodeTool, Episodes, EpisodesConfig, EpisodeState  # noqa: E402
from viper.errors import UsageError  # noqa: E402
from viper.reasoner import Reasoner  # noqa: E402

CHUNK = {"id": "reply", "object": "chat.completion.chunk", "created": 0, "model": "scripted"}
STOPS = "(a reply in words)"


class ScriptedModel(ThreadingHTTPServer):
    """An OpenAI-compatible model: the conversation about a query gets the script for the query.

    Attributes:
        scripts: actions by the text that a conversation must hold.
        seen: the messages of the latest request, by the same text.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), ScriptedReply)
        self.scripts: dict[str, list[str]] = {}
        self.seen: dict[str, list[Any]] = {}
        threading.Thread(target=self.serve_forever, daemon=True).start()


class ScriptedReply(BaseHTTPRequestHandler):
    server: ScriptedModel

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        messages = body["messages"]
        opening = json.dumps(messages[0]["content"])
        about = next(text for text in self.server.scripts if json.dumps(text)[1:-1] in opening)
        self.server.seen[about] = messages
        actions = self.server.scripts[about]
        turn = sum(message["role"] == "tool" for message in messages)
        code = actions[turn] if turn < len(actions) else STOPS
        delta: dict[str, Any] = {"role": "assistant", "content": "It is so."}
        if code != STOPS:
            (tool,) = (tool["function"]["name"] for tool in body["tools"])
            called = {"name": tool, "arguments": json.dumps({"code": code})}
            call = {"index": 0, "id": f"call{turn}", "type": "function", "function": called}
            delta = {"role": "assistant", "content": None, "tool_calls": [call]}
        reason = "stop" if code == STOPS else "tool_calls"
        choices = [
            {"index": 0, "delta": delta, "finish_reason": None},
            {"index": 0, "delta": {}, "finish_reason": reason},
        ]
        events = [json.dumps({**CHUNK, "choices": [choice]}) for choice in choices]
        content = "".join(f"data: {event}\n\n" for event in [*events, "[DONE]"]).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as served:
        yield served
        served.shutdown()


@pytest.fixture(autouse=True)
def on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the harness's program with this Python, where verifiers lets uv install another."""

    async def prepare(runtime: Any, script: str, env: Any, *, activate: bool = True) -> list[str]:
        await runtime.write("chat.py", script.encode())
        return [sys.executable, str(runtime.workdir / "chat.py")]

    monkeypatch.setattr(runtimes.SubprocessRuntime, "prepare_uv_script", prepare)
    monkeypatch.setattr(runtimes, "CACHE_DIR", tmp_path)


def config(**settings: Any) -> EpisodesConfig:
    settings = {"split": episodes.SPLIT, "profile": "embedded", "rules": RULES, **settings}
    return EpisodesConfig(id="viper_episodes", **settings)


def roll_out(
    model: ScriptedModel, scripts: dict[int, list[str]], **settings: Any
) -> dict[int, tuple[Any, list[Any]]]:
    """Roll out tasks at the same time; return the trace and the model's last messages by number."""

    async def run() -> dict[int, tuple[Any, list[Any]]]:
        agent = vf.AgentConfig(runtime=vf.SubprocessConfig())
        env = vf.load_environment(vf.SingleAgentEnvConfig(taskset=config(**settings), agent=agent))
        assert {type(harness) for harness in env._harnesses.values()} == {NullHarness}
        url = f"http://127.0.0.1:{model.server_port}/v1"
        client = vf.EvalClientConfig(base_url=url, api_key_var="NO_KEY")
        context = vf.ModelContext(model="scripted", client=client)
        tasks = [task for task in env.taskset.take(max(scripts) + 1) if task.data.idx in scripts]
        abouts = {task.data.idx: task.data.prompt_text.split("Query: ")[1] for task in tasks}
        model.scripts = {about.split("\n")[0]: scripts[idx] for idx, about in abouts.items()}
        async with env.serving():
            slots = [env.slots(task)[0] for task in tasks]
            played = await asyncio.gather(*(env.run_slot(slot, context) for slot in slots))
        assert [episode.errors for episode in played] == [[]] * len(tasks)
        traces = [episode.traces[0] for episode in played]
        assert [trace.errors for trace in traces] == [[]] * len(tasks)
        seen = (model.seen[abouts[task.data.idx].split("\n")[0]] for task in tasks)
        return {
            task.data.idx: pair
            for task, pair in zip(tasks, zip(traces, seen, strict=True), strict=True)
        }

    before = set(descendants(os.getpid()))
    played = asyncio.run(run())
    assert set(descendants(os.getpid())) <= before
    return played


def text_and_pictures(content: Any) -> tuple[str, list[tuple[str, str]]]:
    """Return the text of a message, and each picture with the note before it."""
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    places = [place for place, part in enumerate(parts) if part["type"] == "image_url"]
    shown = [(parts[place - 1]["text"], parts[place]["image_url"]["url"]) for place in places]
    notes = {place - 1 for place in places}
    texts = [
        part["text"]
        for place, part in enumerate(parts)
        if part["type"] == "text" and place not in notes
    ]
    return "".join(texts), shown


@pytest.mark.parametrize("script", SCRIPTS)
def test_rollouts_are_the_episodes_of_episode(
    script: str, model: ScriptedModel, made: Reasoner
) -> None:
    played = roll_out(model, {seed: episodes.actions(script, seed) for seed in SEEDS})
    for seed, (trace, messages) in played.items():
        expected = episodes.expected(script, seed, made)
        seen = Played(ends=expected.ends)
        for message in messages:
            if message["role"] in ("user", "tool"):
                seen.see(*text_and_pictures(message["content"]))
        # The rollout stops at the end of the episode, so the model never sees the last result.
        assert (seen.texts, seen.pictures) == (expected.texts[:-1], expected.pictures[:-1])
        assert (trace.reward, trace.metrics) == (expected.reward, expected.parts)
        assert trace.stop_condition == "ended"


def test_an_agent_that_stops_early_gets_nothing(model: ScriptedModel) -> None:
    played = roll_out(model, {0: [STOPS], 3: ["x = 1", STOPS]})
    for trace, _ in played.values():
        assert (trace.reward, trace.metrics) == (0, {"answer": 0, "kind": 0})
        assert trace.ok and trace.stop_condition != "ended"


def test_the_right_answer_is_in_no_message_and_no_trace(model: ScriptedModel) -> None:
    number = episodes.ASKS_A_COLOR
    target = episodes.tasks()[number].sample.target
    rules = Rules(exact=True, turns=len(episodes.HOSTILE))
    trace, messages = roll_out(model, {number: list(episodes.HOSTILE)}, rules=rules)[number]
    assert trace.reward == 0
    assert not re.search(rf"\b{target}\b", json.dumps(messages))
    assert not re.search(rf"\b{target}\b", trace.model_dump_json(exclude={"nodes"}))


class Caller:
    """Calls the tool of a server as rollouts do, each with its own state."""

    def __init__(self, **settings: Any) -> None:
        self.tool = CodeTool(config(**settings))

    async def __call__(self, state: EpisodeState, code: str) -> str:
        token = _call_state.set(state)
        try:
            return text_of(await self.tool.run_code(code))
        finally:
            _call_state.reset(token)


def text_of(result: Any) -> str:
    return result.content[0].text


def test_the_last_result_is_that_of_episode_too(made: Reasoner) -> None:
    async def run() -> None:
        call = Caller()
        await call.tool.setup()
        async with call.tool._exit_stack:
            for script in SCRIPTS:
                state = EpisodeState(rollout=script, number=3)
                codes = episodes.actions(script, 3)
                texts = [await call(state, code) for code in codes]
                expected = episodes.expected(script, 3, made)
                assert texts == expected.texts[1:]
                assert (state.reward, state.parts) == (expected.reward, expected.parts)
                assert "has ended" in await call(state, codes[0])

    asyncio.run(run())


def test_a_rollout_has_one_turn_at_a_time_and_one_episode() -> None:
    async def run() -> None:
        call = Caller()
        await call.tool.setup()
        async with call.tool._exit_stack:
            states = [EpisodeState(rollout="one", number=3) for _ in range(8)]
            codes = [f"final_answer = {answer!r}" for answer in ("yes", "no")] * 4
            texts = await asyncio.gather(*map(call, states, codes))
            assert texts[0] == "yes"
            assert all("has ended, or the code before" in text for text in texts[1:])
            assert [state.begun for state in states] == [True] + [False] * 7

    asyncio.run(run())


def test_the_oldest_episode_ends_where_there_are_too_many() -> None:
    async def run() -> None:
        call = Caller(sessions=2)
        await call.tool.setup()
        async with call.tool._exit_stack:
            states = [EpisodeState(rollout=str(number), number=number) for number in range(3)]
            for state in states:
                await call(state, "x = 1")
            assert "has ended" in await call(states[0], "x")
            assert [await call(state, "x + 1") for state in states[1:]] == ["2", "2"]

    asyncio.run(run())


def test_a_taskset_has_the_end_of_its_set() -> None:
    endless = Episodes(config())
    assert (endless.INFINITE, endless.bounded) == (True, False)
    few = Episodes(EpisodesConfig(data="world", split="val", profile="embedded", pictures=False))
    tasks = list(few.take(2))
    assert few.bounded and [task.data.number for task in tasks] == [0, 1]
    assert all(part.type == "text" for task in tasks for part in task.data.prompt[0].content)


def test_settings_reach_the_server_and_wrong_ones_are_refused() -> None:
    rules = Rules(turns=2, exact=True, weights=RewardWeights(verified=1))
    sent = config(rules=rules).model_dump_json()
    assert EpisodesConfig.model_validate_json(sent).rules == rules
    with pytest.raises(ValueError, match="rules.turn"):
        config(rules={"turn": 1})
    with pytest.raises(UsageError, match="turns and calls are at least 1"):
        config(rules={"turns": 0})
