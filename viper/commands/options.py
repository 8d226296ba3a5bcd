"""Options that several commands share, and how they become a Reasoner."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from viper.commands.correction_options import changed_profile
from viper.commands.option_groups import state_option

if TYPE_CHECKING:
    from viper.profiles.wiring import Profile
    from viper.reasoner import Reasoner

OFFLINE_VARIABLES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")


def profile_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--profile --sandbox --offline --max-memory --state``."""
    for option in (
        state_option,
        click.option(
            "--max-memory",
            "max_memory_gb",
            type=click.FloatRange(min=0, min_open=True),
            default=None,
            metavar="GB",
            help="Keep at most this much of vision models' weights in memory.",
        ),
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


def learned_option(by_default: bool = True) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """``--learned``: whether what ``viper learn`` left in the state is used."""
    return click.option(
        "--learned/--no-learned",
        default=by_default,
        show_default=True,
        help="Use what viper learn left in the state: taught tools, programs as examples.",
    )


def api_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--api``: which names programs may call."""
    return click.option(
        "--api",
        default=None,
        metavar="NAME[+FILE.py]",
        help="abstract, vipergpt, visprog, knowledge, dwim, dwim-ccq, dwim-ekvqa, dwim-gd, "
        "dwim-vasa, dwim-vcr, dwim-vlcu, a file of your own routines, or several joined by +.",
    )(command)


def split_options(values: tuple[str, ...]) -> tuple[str, ...]:
    """``--options`` given once as ``a; b; c`` or several times."""
    parts = [part.strip() for value in values for part in value.split(";")]
    return tuple(part for part in parts if part)


def open_profile(given: Mapping[str, Any]) -> Profile:
    """The profile that a command's options name; nothing is loaded yet."""
    quiet_libraries(given["offline"])
    from viper.profiles import load_profile

    profile = load_profile(
        given["profile"],
        sandbox=given["sandbox"],
        api=given.get("api"),
        max_memory_gb=given["max_memory_gb"],
        state=given.get("state"),
        learned=given.get("learned", False),
    )
    return changed_profile(profile, given)


def open_reasoner(given: Mapping[str, Any], *, many_queries: bool = False) -> Reasoner:
    """The wired Reasoner of a command's options; its models load on first use.

    Args:
        given: what :func:`profile_options` and :func:`api_option` read.
        many_queries: load vision models ahead if the profile says so; for a single query
            those that it does not need would only keep it waiting.
    """
    profile = open_profile(given)
    from viper.commands.progress import status

    with status("starting"):
        from viper.reasoner import Reasoner

        return Reasoner(profile, preload=None if many_queries else False)


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
