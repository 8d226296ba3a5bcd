"""``viper serve``: answer queries over HTTP."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path

import click

from viper.commands.options import (
    ProfileChoice,
    api_option,
    given_by,
    learned_option,
    need_packages,
    open_reasoner,
    option,
    options_as,
)
from viper.errors import EXIT_OK, UsageError
from viper.serve.settings import ServeSettings, is_loopback

TOKEN_ENV = "VIPER_SERVE_TOKEN"

_PACKAGES = ("fastapi", "uvicorn", "python-multipart", "prometheus-client")


@dataclass(frozen=True, kw_only=True)
class ServeOptions(ProfileChoice):
    """The options of ``viper serve``."""

    # fmt: off
    host: str = option("--host", default="127.0.0.1", help="Address to listen on.")
    port: int = option("--port", type=click.IntRange(0, 65535), default=8000)
    token_env: str | None = option("--token-env", metavar="NAME",
        help=f"Environment variable with the token that callers must show.  [default: {TOKEN_ENV}]")
    workers: int = option("--workers", type=click.IntRange(1, 64), default=2,
        help="Runs at a time.")
    queue: int = option("--queue", type=click.IntRange(0, 10_000), default=16,
        help="Requests that may wait; the next one gets 429.")
    max_upload_mb: float = option("--max-upload-mb", type=click.FloatRange(0, min_open=True),
        default=64.0, help="Size of a request in MiB.")
    max_files: int = option("--max-files", type=click.IntRange(1, 100), default=8,
        help="Media in a request.")
    deadline_s: float = option("--deadline-s", type=click.FloatRange(0, min_open=True),
        default=120.0, help="Seconds a request may take.")
    grace_s: float = option("--grace-s", type=click.FloatRange(0), default=20.0,
        help="Seconds that runs may go on after SIGTERM.")
    media_roots: tuple[Path, ...] = option("--media-root",
        help="Folder whose files callers may name; may be repeated.")
    allow_exec: bool = option("--allow-exec",
        help="Run programs that callers send (POST /v1/exec).")
    log_queries: bool = option("--log-queries", help="Write queries into the log.")
    api: str | None = given_by(api_option)
    learned: bool = given_by(learned_option())
    # fmt: on


@click.command()
@options_as(ServeOptions)
def serve(serving: ServeOptions) -> int:
    """Answer queries over HTTP until SIGTERM or ctrl-C.

    Without a token only this machine is served.

    \b
    viper serve --port 8000
    curl -F media=@table.png -F "query=the leftmost cube" http://127.0.0.1:8000/v1/run
    """
    need_packages(_PACKAGES, "serve", "viper serve")
    settings = _settings(serving)
    from viper.serve.run_server import serve as serve_until_signal

    with open_reasoner(serving, many_queries=True) as reasoner:
        serve_until_signal(reasoner, settings)
    return EXIT_OK


def _settings(serving: ServeOptions) -> ServeSettings:
    names = {one.name for one in fields(ServeSettings)} & vars(serving).keys()
    settings = ServeSettings(
        token=_token(serving.token_env), **{name: getattr(serving, name) for name in names}
    )
    if settings.allow_exec and serving.sandbox == "weak" and not is_loopback(settings.host):
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
