"""`viper env serve` with the client of openenv: episodes as of `Episode`, kept apart and closed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from click.testing import CliRunner

from tests.bridges import episodes
from tests.bridges.episodes import SCRIPTS, SEEDS, Played
from tests.bridges.needed import need
from tests.processes import descendants, state

need("openenv", "openenv")

import httpx  # noqa: E402
from openenv import GenericEnvClient  # noqa: E402

from viper.cli import cli  # noqa: E402
from viper.env.episode import Rules  # noqa: E402
from viper.env.openenv import Code, EpisodeEnvironment  # noqa: E402
from viper.errors import UsageError  # noqa: E402
from viper.reasoner import Reasoner  # noqa: E402

WAIT_S = 60
SERVE = ("env", "serve", "world-everyday", "--split", episodes.SPLIT, "--profile", "embedded")
TOKEN = "the-token-of-the-tests"
IDLE = 3
"""Processes of a sandbox without sessions: the one that forks, and two in reserve."""


@contextmanager
def serving(*options: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Return the process of a server and its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "viper", *SERVE, "--exact", "--port", "0", *options],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    assert process.stderr is not None
    try:
        lines = iter(process.stderr.readline, "")
        found = next((line for line in lines if line.startswith("serving on ")), "")
        assert found, process.stderr.read()
        yield process, found.split()[-1]
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[subprocess.Popen[str], str]]:
    with serving("--max-sessions", "4") as started:
        yield started


def client(url: str, **options: Any) -> Any:
    return GenericEnvClient(base_url=url, **options).sync()


def play(url: str, script: str, seed: int) -> Played:
    """Play a script in a session of its own."""
    played = Played()
    with client(url) as env:
        result = env.reset(seed=seed)
        for number, code in enumerate(["", *episodes.actions(script, seed)]):
            result = env.step({"code": code}) if number else result
            seen = result.observation
            played.see(seen["text"], [(one["note"], one["uri"]) for one in seen["pictures"]])
            played.ends = number if result.done else 0
        played.reward, played.parts = result.reward, result.observation["parts"]
    return played


def settled(count: Callable[[], int], wanted: int) -> bool:
    """Return whether a count falls to a number before the time is over."""
    deadline = time.monotonic() + WAIT_S
    while count() > wanted and time.monotonic() < deadline:
        time.sleep(0.05)
    return count() <= wanted


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("seed", SEEDS)
def test_an_episode_is_that_of_episode(
    script: str, seed: int, server: tuple[Any, str], made: Reasoner
) -> None:
    assert play(server[1], script, seed) == episodes.expected(script, seed, made)


def test_sessions_at_the_same_time_do_not_mix(server: tuple[Any, str], made: Reasoner) -> None:
    jobs = [("turns", 0), ("failing", 3), ("no answer", 11), ("pictures", 0)] * 2
    with ThreadPoolExecutor(4) as pool:
        played = list(pool.map(lambda job: play(server[1], *job), jobs))
    assert played == [episodes.expected(*job, made) for job in jobs]


def test_variables_of_one_session_are_not_those_of_another(server: tuple[Any, str]) -> None:
    with client(server[1]) as one, client(server[1]) as other:
        one.reset(seed=0, episode_id="first")
        other.reset(seed=3)
        one.step({"code": "mine = 41"})
        assert "NameError" in other.step({"code": "mine"}).observation["text"]
        assert one.step({"code": "mine + 1"}).observation["text"] == "42"
        assert one.state() == {
            "episode_id": "first", "step_count": 2, "task": 0, "sample_id": "everyday-train-0-2-0",
        }  # fmt: skip
        assert (other.state()["step_count"], other.state()["task"]) == (1, 3)
        one.reset(seed=0)
        assert "NameError" in one.step({"code": "mine"}).observation["text"]


def test_without_a_seed_the_state_says_which_task_it_is(server: tuple[Any, str]) -> None:
    with client(server[1]) as env:
        opening = env.reset().observation["text"]
        number = env.state()["task"]
        assert env.reset(seed=number).observation["text"] == opening


def test_the_reward_comes_once_and_ends_the_episode(server: tuple[Any, str]) -> None:
    with client(server[1]) as env:
        env.reset(seed=0)
        assert env.step({"code": "1"}).reward is None
        assert env.step({"code": episodes.actions("right", 0)[0]}).reward == 1
        with pytest.raises(RuntimeError, match="no episode runs; reset the session"):
            env.step({"code": "final_answer = 2"})


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda env: env.step({"code": "1", "answer": "no"}), "VALIDATION_ERROR"),
        (lambda env: env.step({"program": "1"}), "VALIDATION_ERROR"),
        (lambda env: env.step({"code": 1}), "VALIDATION_ERROR"),
        (lambda env: env.reset(seed=0, split="test"), "not {'split': 'test'}"),
        (lambda env: env.reset(seed="0"), "not '0'"),
        (lambda env: env.reset(seed=True), "not True"),
        (lambda env: env.reset(seed=-1), "has the tasks 0 and more"),
        (lambda env: env.step({"code": "1"}), "no episode runs"),
    ],
)
def test_what_is_wrong_is_refused_and_the_session_goes_on(
    act: Callable[[Any], Any], message: str, server: tuple[Any, str]
) -> None:
    with client(server[1]) as env:
        with pytest.raises(RuntimeError, match=re.escape(message)):
            act(env)
        assert env.reset(seed=0).observation["pictures"]


def test_the_right_answer_is_in_no_message(server: tuple[Any, str]) -> None:
    target = episodes.tasks()[episodes.ASKS_A_COLOR].sample.target
    with client(server[1]) as env:
        seen = [env.reset(seed=episodes.ASKS_A_COLOR).observation["text"]]
        for code in episodes.HOSTILE:
            seen += [env.step({"code": code}).observation["text"], json.dumps(env.state())]
            env.reset(seed=episodes.ASKS_A_COLOR)
    for path in ("metadata", "schema", "state", "openapi.json"):
        seen.append(httpx.get(f"{server[1]}{path}").raise_for_status().text)
    assert not [text for text in seen if re.search(rf"\b{target}\b|everyday_question", text)]


def test_a_client_that_is_gone_leaves_no_process(server: tuple[Any, str]) -> None:
    process, url = server

    def count() -> int:
        return len(descendants(process.pid))

    with client(url) as env:
        env.reset(seed=0)
        assert count() > IDLE
    assert settled(count, IDLE)
    body = (
        "import os, sys; from openenv import GenericEnvClient\n"
        "env = GenericEnvClient(base_url=sys.argv[1]).sync()\n"
        "env.connect(); env.reset(seed=0); env.step({'code': 'x = 1'}); print('in', flush=True)\n"
        "os._exit(1)"
    )
    for _ in range(3):
        subprocess.run([sys.executable, "-c", body, url], check=False, capture_output=True)
    assert settled(count, IDLE)
    with client(url) as env:
        assert env.reset(seed=0).observation["text"]


def test_more_sessions_than_allowed_are_refused(server: tuple[Any, str]) -> None:
    clients = [client(server[1]) for _ in range(5)]
    try:
        for env in clients[:4]:
            env.reset(seed=0)
        with pytest.raises(RuntimeError, match="CAPACITY_REACHED"):
            clients[4].reset(seed=0)
    finally:
        for env in clients:
            env.close()


@pytest.mark.parametrize("code", ["x = 1", "while True: pass"], ids=["idle", "busy"])
def test_ctrl_c_ends_it_with_130_and_no_process_is_left(code: str) -> None:
    with serving() as (process, url), client(url) as env, ThreadPoolExecutor(1) as pool:
        env.reset(seed=0)
        running = pool.submit(env.step, {"code": code})
        below = descendants(process.pid)
        while not (running.done() or any(state(pid) == "R" for pid in below)):
            pass
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S) == 130
        assert process.stderr is not None
        said = process.stderr.read()
        assert said.endswith("\nviper: interrupted\n") and "Traceback" not in said
        assert settled(lambda: sum(state(pid) != "Z" for pid in below), 0)
        assert (running.exception(WAIT_S) is None) == (code == "x = 1")


def test_pages_of_others_are_refused(server: tuple[Any, str]) -> None:
    url = server[1]
    for headers in ({"Origin": "http://evil.example"}, {"Host": "evil.example"}):
        assert httpx.get(f"{url}health", headers=headers).status_code == 403
    for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}):
        with pytest.raises(ConnectionError, match="403"):
            client(url, headers=headers).reset(seed=0)


def test_with_a_token_others_may_call() -> None:
    with serving("--host", "0.0.0.0", VIPER_SERVE_TOKEN=TOKEN) as (_, url):
        url = url.replace("0.0.0.0", "127.0.0.1")
        for headers in (None, {"Authorization": "Bearer another-token-of-tests"}):
            with pytest.raises(ConnectionError, match="401"):
                client(url, headers=headers).reset(seed=0)
        with client(url, headers={"Authorization": f"Bearer {TOKEN}"}) as env:
            assert env.reset(seed=0).observation["text"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--host", "0.0.0.0"), "no token"),
        (("--weights", "answer=x"), "write PART=NUMBER"),
        (("--weights", "beauty=1"), "with answer, kind, calls, verified"),
        (("--weights", "answer=0,kind=0"), "one above 0"),
        (("--weights", "answer=nan"), "finite"),
        (("--split", "train:9"), "train:9"),
        (("--api", "no-such-api"), "no-such-api"),
    ],
)
def test_a_wrong_option_is_one_line(
    options: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VIPER_SERVE_TOKEN", raising=False)
    result = CliRunner().invoke(cli, [*SERVE, "--port", "0", *options], standalone_mode=False)
    assert isinstance(result.exception, UsageError) and message in str(result.exception)
    assert "\n" not in str(result.exception)


def test_tasks_without_known_scenes_need_models() -> None:
    words = ["env", "serve", "world", "--profile", "embedded", "--port", "0", "--exact"]
    result = CliRunner().invoke(cli, words, standalone_mode=False)
    assert "its scene is not known" in str(result.exception)


def test_all_parts_arrive(made: Reasoner) -> None:
    from viper.env.episode import RewardWeights

    rules = Rules(exact=True, weights=RewardWeights.of("calls=.5,verified=1"))
    env = EpisodeEnvironment(episodes.tasks(), made, rules)
    env.reset(seed=0)
    result = env.step(Code(code=episodes.actions("right", 0)[0]))
    env.close()
    assert set(result.parts) == {"answer", "kind", "calls", "verified"}
    assert result.parts["verified"] == 1 and 0 < result.parts["calls"] < 1
    with pytest.raises(UsageError, match="no episode runs"):
        env.step(Code(code="1"))


def test_the_example_of_the_page_runs(
    server: tuple[Any, str], capsys: pytest.CaptureFixture[str]
) -> None:
    exec(episodes.example("OpenEnv").replace("http://127.0.0.1:8000", server[1]), {})  # noqa: S102
    assert "True" in capsys.readouterr().out
