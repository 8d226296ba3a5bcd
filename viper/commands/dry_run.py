"""What a run of ``viper run`` would cost and ask, without loading a model."""

from __future__ import annotations

import inspect
import json
import math
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from viper.commands.profile import echo_weights
from viper.commands.terminal import note
from viper.errors import EXIT_FAILED, EXIT_OK, ModelError
from viper.models.hub import local_copy
from viper.models.llm.prompt_tokens import CHARACTERS_PER_TOKEN
from viper.models.llm.scripted import ScriptedLLM
from viper.models.loading import LoadOptions
from viper.models.media import Media
from viper.profiles.backends import backend_class, loads_weights
from viper.profiles.wiring import Profile
from viper.reasoner import Reasoner, RunOptions
from viper.strategies import STRATEGIES
from viper.strategies.base import Components


def tell_cost(
    profile: Profile, offline: bool, media: Media, query: str, options: RunOptions
) -> int:
    """Print the cost of the run without loading weights."""
    settings = options.settings(profile.document.run)
    strategy = STRATEGIES.get(settings.strategy)
    states = echo_weights(profile, offline)
    sizes = [state.size_bytes for state in states if state.size_bytes]
    click.echo(f"weights on this disk: {sum(sizes) / 1e6:,.0f} MB; each loads when first needed")
    exit_code = EXIT_FAILED if any(state.problem for state in states) else EXIT_OK
    if strategy is not None and not strategy.writes_programs:
        click.echo(f"strategy {settings.strategy}: {strategy.summary}")
        return exit_code
    parts = unloaded(profile)
    # The router may need a model, and the prompt is then shorter than this one.
    parts = replace(parts, settings=replace(parts.settings, api_budget=0))
    with Reasoner(parts, preload=False) as reasoner:
        prompt = reasoner.prompt(media, query, options)
    texts = "plans and as many programs" if settings.strategy == "plan" else "programs"
    fewest, most = (settings.votes + 1) // 2, settings.trials * settings.votes
    click.echo(
        f"language model: {fewest} to {most} {texts}, a prompt of {len(prompt):,} characters "
        f"(roughly {len(prompt) // 4:,} tokens), at most {settings.max_tokens} tokens each"
    )
    most = profile.document.limits.calls
    click.echo(f"vision models: as many calls as the program makes, at most {most}")
    return exit_code


def unloaded(profile: Profile) -> Components:
    """Return the components of a profile, with language models that only count tokens.

    Their prompts are those of the models if the tokenizers are on this disk. Otherwise the number
    of examples is an estimate.
    """
    counters = {}
    for role, choice in profile.document.models.items():
        options, kind = profile.options(role, choice), backend_class(role, choice.backend)
        declared = inspect.signature(kind).parameters.get("max_context")
        context = options.get("max_context", getattr(declared, "default", None))
        own = profile.model_source(choice) if loads_weights(role, choice.backend) else None
        folder = Path(os.devnull)  # holds no file
        with suppress(ModelError):
            folder = local_copy(options.get("tokenizer", own) or "-", LoadOptions(local_only=True))
        if context is None and (folder / "config.json").is_file():
            config = json.loads((folder / "config.json").read_text("utf-8"))
            context = config.get("text_config", config).get("max_position_embeddings")
        tokenizer = folder / "tokenizer.json"
        counters[role] = TokenReader(
            tokenizer if tokenizer.is_file() else None, int(context or 1 << 20)
        )
    return profile.components().with_models(**counters)


class TokenReader(ScriptedLLM):
    """Counts tokens as the model of a checkpoint does, without torch and transformers.

    Attributes:
        exact: False if it estimates, because there is no tokenizer.
    """

    def __init__(self, tokenizer: Path | None, max_context: int) -> None:
        super().__init__(max_context=max_context)
        self.exact = tokenizer is not None
        self._tokenizer: Any = None
        if tokenizer is not None:
            from tokenizers import Tokenizer

            self._tokenizer = Tokenizer.from_file(str(tokenizer))
            self._tokenizer.no_truncation()

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of the text, without special tokens."""
        if self._tokenizer is None:
            return math.ceil(len(text) / CHARACTERS_PER_TOKEN)
        return len(self._tokenizer.encode(text, add_special_tokens=False))


def show_prompt(profile: Profile, media: Media, query: str, options: RunOptions) -> None:
    """Print the prompt of a run without loading a model."""
    parts = unloaded(profile)
    with Reasoner(parts, preload=False) as reasoner:
        prompt = reasoner.prompt(media, query, options)
    if not all(getattr(model, "exact", False) for model in parts.models.values()):
        note("the number of examples is an estimate, because a tokenizer is not on this disk")
    click.echo(prompt)
