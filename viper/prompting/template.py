"""Prompt templates: the texts in ``templates/*.md``, filled in as a string or as a conversation."""

from __future__ import annotations

import textwrap
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from string import Template
from typing import Any

from viper.models.llm.messages import Conversation, system, user
from viper.sandbox.modules import MODULES

# The line of a template after which the user's message begins.
USER_TURN = "=== user ===\n"

# The modules that programs may import, for prompts.
MODULE_NAMES = ", ".join(sorted(MODULES))


def fill(name: str, values: Mapping[str, str]) -> str:
    """Return a template as one text with its values, which are inserted verbatim."""
    return Template(_text(name).replace(USER_TURN, "")).substitute(values)


def fill_turns(name: str, values: Mapping[str, str]) -> Conversation:
    """Return a template as a system message and a user message with their values."""
    standing, question = (
        Template(part).substitute(values).strip() for part in _text(name).split(USER_TURN)
    )
    return (system(standing), user(question))


def facts_section(facts: str) -> str:
    """Return the section on what a profile says about its models; "" without facts."""
    return f"## What the models know\n\n{facts.strip()}\n\n" if facts.strip() else ""


@cache
def template_data(name: str) -> Mapping[str, Any]:
    """Return the tables of a template's data, ``templates/{name}.toml``."""
    folder = resources.files("viper.prompting") / "templates"
    return tomllib.loads((folder / f"{name}.toml").read_text(encoding="utf-8"))


@cache
def _text(name: str) -> str:
    folder = resources.files("viper.prompting") / "templates"
    return textwrap.dedent((folder / f"{name}.md").read_text(encoding="utf-8"))
