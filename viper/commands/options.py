"""Options that several commands share, and how they become a Reasoner."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from viper.reasoner import Reasoner
    from viper.sandbox.sandbox import Mode

OFFLINE_VARIABLES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")


def profile_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--profile --sandbox --offline``."""
    for option in (
        click.option(
            "--offline", is_flag=True, help="Never reach for a model hub; use what is on this disk."
        ),
        click.option(
            "--sandbox",
            type=click.Choice(["strict", "weak"]),
            default="strict",
            show_default=True,
            help="weak: go on where a protection layer is missing (see viper doctor).",
        ),
        click.option(
            "--profile",
            default="embedded",
            show_default=True,
            metavar="NAME|FILE.toml",
            help="Which models play which role, thresholds, limits.",
        ),
    ):
        command = option(command)
    return command


def split_options(values: tuple[str, ...]) -> tuple[str, ...]:
    """``--options`` given once as ``a; b; c`` or several times."""
    parts = [part.strip() for value in values for part in value.split(";")]
    return tuple(part for part in parts if part)


def open_reasoner(
    profile: str, sandbox: Mode, offline: bool, *, many_queries: bool = False
) -> Reasoner:
    """The wired Reasoner, with a line on stderr while its models load.

    Args:
        many_queries: load vision models ahead if the profile says so; for a single query
            those that it does not need would only keep it waiting.
    """
    quiet_libraries(offline)
    from viper.commands.progress import status

    with status("loading models"):
        from viper.profiles import load_profile
        from viper.reasoner import Reasoner

        return Reasoner(
            load_profile(profile, sandbox=sandbox), preload=None if many_queries else False
        )


def quiet_libraries(offline: bool) -> None:
    """Tells the model libraries to keep quiet, send no statistics and, if asked, stay offline.

    They read these variables when they are imported, so this comes first.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if offline:
        for name in OFFLINE_VARIABLES:
            os.environ[name] = "1"
