"""The profiles, tables and numbers of ``docs/language-models.md``."""

from __future__ import annotations

import inspect
import re
import tomllib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import viper
from tests.models.llm.openai_server import OpenAIServer
from viper.models.llm.endpoint import OFFICIAL_URL, find_endpoint
from viper.models.llm.openai_llm import OpenAILLM
from viper.models.llm.protocol import Sampling
from viper.models.vision.video_chat import FRAMES_SHOWN as VIDEO_FRAMES
from viper.profiles import load_profile
from viper.profiles.backends import (
    SHIPPED,
    VLM,
    asks_vlm,
    backend_class,
    check_options,
    takes_pictures,
    vlm_options,
)
from viper.profiles.wiring import Profile
from viper.prompting.replies import read_program
from viper.schema import Failure
from viper.strategies.prompts import FRAMES_SHOWN

PACKAGE = Path(viper.__file__).parent
PAGE = (PACKAGE.parent / "docs" / "language-models.md").read_text(encoding="utf-8")
PROFILES = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
WITH_OPTIONS = [text for text in PROFILES if "[llm.options]" in text]


def rows(header: str) -> list[list[str]]:
    """Return the cells of the table whose header begins so."""
    lines = PAGE.split(f"| {header} |", 1)[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def names(cell: str) -> set[str]:
    return set(re.findall(r"`([\w-]+)`", cell))


def own_options(kind: Any) -> set[str]:
    """Return the options of a class: its parameters that are given by name alone."""
    parameters = inspect.signature(kind).parameters.values()
    return {one.name for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY}


def default_of(kind: Any, option: str) -> Any:
    return inspect.signature(kind).parameters[option].default


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "no-real-key-0123")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def profile_of(text: str, tmp_path: Path) -> Profile:
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return load_profile(str(path), state=tmp_path)


def test_the_page_has_a_profile_of_each_kind() -> None:
    tables = [tomllib.loads(text) for text in PROFILES]
    backends = [table["llm"]["backend"] for table in tables if "roles" in table]
    assert backends == ["openai", VLM]
    assert len(WITH_OPTIONS) == 2


@pytest.mark.parametrize("text", PROFILES)
@pytest.mark.usefixtures("key")
def test_a_profile_is_complete(text: str, tmp_path: Path) -> None:
    pytest.importorskip("openai")
    profile = profile_of(text, tmp_path)
    assert profile.problems() == []
    for role, choice in profile.choices():
        options = profile.options(role, choice)
        if choice.backend == VLM or asks_vlm(role, choice.backend):
            vlm_options(role, choice.backend, options)
        elif choice.backend == "openai":
            check_options(role, choice.backend, options)
    profile.components()


@pytest.mark.parametrize("text", WITH_OPTIONS)
@pytest.mark.usefixtures("key")
def test_the_options_for_reasoning_models_reach_the_server(text: str) -> None:
    pytest.importorskip("openai")
    table = tomllib.loads(text)["llm"]
    with closing(OpenAIServer()) as server:
        llm = OpenAILLM(table["model"], **{**table["options"], "base_url": server.url})
        llm.generate(["hello"], Sampling(temperature=0.5, stop=("\n",), max_tokens=512))
        llm.close()
    body = server.received[0].body
    assert body[llm.capabilities.token_field] == 512 + table["options"]["thinking_tokens"]
    assert not set(llm.capabilities.refused) & set(body)
    sent = {**table["options"].get("extra", {})}
    if "chat_template_kwargs" in table["options"]:
        sent["chat_template_kwargs"] = table["options"]["chat_template_kwargs"]
    assert sent
    assert {name: body[name] for name in sent} == sent


def test_the_table_of_backends_is_complete() -> None:
    table = {next(iter(names(row[0]))): row[1] for row in rows("`backend` | sees")}
    assert set(table) == set(SHIPPED["llm"])
    for backend, sees in table.items():
        assert (sees != "no") == takes_pictures(backend, {}), backend


@pytest.mark.usefixtures("key")
def test_the_addresses_can_be_used() -> None:
    addresses = re.findall(r"^[\w. ]+ (https?://\S+)$", PAGE, re.MULTILINE)
    assert len(addresses) == 9 and addresses[0] == OFFICIAL_URL
    assert [find_endpoint(address, "OPENAI_API_KEY").base_url for address in addresses] == addresses


def test_the_table_of_roles_has_every_option() -> None:
    table = {next(iter(names(row[0]))): names(row[2]) for row in rows("role | asks for")}
    assert set(table) == {role for role in SHIPPED if role != "llm" and VLM in SHIPPED[role]}
    for role, options in table.items():
        assert options == own_options(backend_class(role, VLM)), role


def test_the_table_for_reasoning_models_names_options() -> None:
    for row in rows("option | meaning"):
        assert names(row[0]) <= own_options(OpenAILLM)
        if "endpoints:" not in row[1]:
            for backend in SHIPPED["llm"]:
                assert names(row[0]) <= own_options(backend_class("llm", backend)), backend


def test_the_numbers_of_the_page() -> None:
    assert f"or {FRAMES_SHOWN} evenly chosen frames" in " ".join(PAGE.split())
    assert f"an answer about {VIDEO_FRAMES} frames" in PAGE
    assert f"`max_side` ({default_of(OpenAILLM, 'max_side')})" in PAGE
    assert f"`max_context` ({default_of(OpenAILLM, 'max_context')})" in PAGE


def test_the_table_of_failures_has_the_kinds_of_the_reader() -> None:
    read = [
        read_program("I'm sorry, I can't help with that."),
        read_program("def execute_command(image):", "length", 512),
        read_program("A man stands there."),
    ]
    kinds = {failure.kind for failure in read if isinstance(failure, Failure)}
    assert kinds == {next(iter(names(row[0]))) for row in rows("failure | do")}


def test_the_errors_of_the_page_are_those_of_the_code() -> None:
    code = "\n".join(path.read_text("utf-8") for path in sorted((PACKAGE / "models").rglob("*.py")))
    code = re.sub(r"{\w+}", "{}", code)  # a number of the page is any variable of the code
    for row in rows("message | do"):
        message = re.findall(r"`([^`]+)`", row[0])[0]
        assert re.sub(r"\b1\b", "{}", message) in code, message
