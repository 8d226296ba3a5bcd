"""``viper serve``: answer queries over HTTP."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from viper.commands.options import api_option, learned_option, open_reasoner, profile_options
from viper.errors import EXIT_OK, MissingExtraError, UsageError

if TYPE_CHECKING:
    from viper.serve.settings import ServeSettings

TOKEN_ENV = "VIPER_SERVE_TOKEN"

_PACKAGES = {
    "fastapi": "fastapi",
    "uvicorn": "uvicorn",
    "python_multipart": "python-multipart",
    "prometheus_client": "prometheus-client",
}
"""Module to package."""


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True)
@click.option(
    "--token-env",
    metavar="NAME",
    help=f"Environment variable with the token that callers must show.  [default: {TOKEN_ENV}]",
)
@click.option(
    "--workers", type=click.IntRange(1, 64), default=2, show_default=True, help="Runs at a time."
)
@click.option(
    "--queue",
    type=click.IntRange(0, 10_000),
    default=16,
    show_default=True,
    help="Requests that may wait; the next one gets 429.",
)
@click.option(
    "--max-upload-mb",
    type=click.FloatRange(0, min_open=True),
    default=64.0,
    show_default=True,
    help="Size of a request in MiB.",
)
@click.option(
    "--max-files",
    type=click.IntRange(1, 100),
    default=8,
    show_default=True,
    help="Media in a request.",
)
@click.option(
    "--deadline-s",
    type=click.FloatRange(0, min_open=True),
    default=120.0,
    show_default=True,
    help="Seconds a request may take.",
)
@click.option(
    "--grace-s",
    type=click.FloatRange(0),
    default=20.0,
    show_default=True,
    help="Seconds that runs may go on after SIGTERM.",
)
@click.option(
    "--media-root",
    "media_roots",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Folder whose files callers may name; may be repeated.",
)
@click.option("--allow-exec", is_flag=True, help="Run programs that callers send (POST /v1/exec).")
@click.option("--log-queries", is_flag=True, help="Write queries into the log.")
@api_option
@learned_option()
@profile_options
def serve(**given: Any) -> int:
    """Answer queries over HTTP until SIGTERM or ctrl-C.

    Without a token only this machine is served.

    \b
    viper serve --port 8000
    curl -F media=@table.png -F "query=the leftmost cube" http://127.0.0.1:8000/v1/run
    """
    for module, package in _PACKAGES.items():
        if importlib.util.find_spec(module) is None:
            raise MissingExtraError(package, "serve", "viper serve")
    settings = _settings(given)
    from viper.serve.run_server import serve as serve_until_signal

    with open_reasoner(given, many_queries=True) as reasoner:
        serve_until_signal(reasoner, settings)
    return EXIT_OK


def _settings(given: dict[str, Any]) -> ServeSettings:
    from viper.serve.settings import ServeSettings, is_loopback

    names = ServeSettings.__dataclass_fields__.keys() & given.keys()
    settings = ServeSettings(
        token=_token(given["token_env"]), **{name: given[name] for name in names}
    )
    if settings.allow_exec and given["sandbox"] == "weak" and not is_loopback(settings.host):
        raise UsageError(
            "--allow-exec would run programs of others in a weak sandbox; "
            "leave one of --allow-exec and --sandbox weak out, or listen on 127.0.0.1"
        )
    return settings


def _token(named: str | None) -> str | None:
    """The token in the environment; a variable that was named must be there."""
    token = os.environ.get(named or TOKEN_ENV)
    if named is not None and token is None:
        raise UsageError(f"--token-env {named}: no such variable in the environment; set it first")
    return token
