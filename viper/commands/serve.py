"""``viper serve`` and ``viper mcp``: answer queries over HTTP, or for agents.

Both check their options, build the settings of a server (:func:`settings_of`), load the profile and
serve until a signal.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path

import click

from viper.commands import options as cli
from viper.commands.options import LIMITS, SectionedCommand
from viper.errors import UsageError
from viper.plugins import need_packages
from viper.serve.settings import ServeSettings, is_loopback

TOKEN_ENV = "VIPER_SERVE_TOKEN"


@dataclass(frozen=True, kw_only=True)
class AddressOptions(cli.ProfileChoice):
    """Address of a server, and who may call it."""

    # fmt: off
    host: str = cli.option("--host", default="127.0.0.1", help="Address to listen on.")
    port: int = cli.option("--port", type=click.IntRange(0, 65535), default=8000,
        help="Port to listen on; 0 takes a free one.")
    token_env: str | None = cli.option("--token-env", metavar="NAME",
        help="Environment variable that holds the token of callers.  "
             f"[default: {TOKEN_ENV}]")
    # fmt: on


@dataclass(frozen=True, kw_only=True)
class ServerOptions(AddressOptions):
    """Options of every command that serves a reasoner."""

    # fmt: off
    workers: int = cli.option("--workers", type=click.IntRange(1, 64), default=2,
        help="Number of queries to answer at the same time.")
    media_roots: tuple[Path, ...] = cli.option("--media-root",
        help="Folder with files that callers may name instead of sending them; repeatable.")
    queue: int = cli.option("--queue", type=click.IntRange(0, 10_000), default=16, section=LIMITS,
        help="Number of requests that may wait; further requests get status 429.")
    max_upload_mb: float = cli.option("--max-upload-mb", type=click.FloatRange(0, min_open=True),
        default=64.0, section=LIMITS, help="Maximum size of a request in MiB.")
    max_files: int = cli.option("--max-files", type=click.IntRange(1, 100), default=8,
        section=LIMITS, help="Maximum number of images or videos in a request.")
    max_megapixels: float = cli.option("--max-megapixels", default=60.0, section=LIMITS,
        type=click.FloatRange(0, min_open=True), help="Maximum size of a request's images or "
        "videos in millions of pixels.")
    deadline_s: float = cli.option("--deadline-s", type=click.FloatRange(0, min_open=True),
        default=120.0, section=LIMITS, help="Time limit for a request in seconds.")
    grace_s: float = cli.option("--grace-s", type=click.FloatRange(0), default=20.0, section=LIMITS,
        help="Seconds that running queries get to finish after SIGTERM.")
    api: str | None = cli.given_by(cli.api_option)
    learned: bool = cli.learned_field()
    # fmt: on


@dataclass(frozen=True, kw_only=True)
class HttpServeOptions(ServerOptions):
    """Options of ``viper serve``."""

    # fmt: off
    allow_exec: bool = cli.option("--allow-exec",
        help="Run programs that callers send (POST /v1/exec).")
    log_queries: bool = cli.option("--log-queries", help="Write the text of queries to the log.")
    # fmt: on


@dataclass(frozen=True, kw_only=True)
class McpOptions(ServerOptions):
    """Options of ``viper mcp``."""

    http: bool = cli.option("--http", help="Listen for HTTP clients instead of standard input.")


@click.command(
    cls=SectionedCommand,
    first="host port token_env workers media_roots allow_exec log_queries profile api offline",
)
@cli.options_as(HttpServeOptions)
def serve(serving: HttpServeOptions) -> None:
    """Answer queries over HTTP until SIGTERM or Ctrl-C.

    Without a token, the server listens on this machine only.

    \b
    viper serve --port 8000
    curl -F media=@table.png -F "query=the leftmost cube" http://127.0.0.1:8000/v1/run
    """
    need_packages(("fastapi", "uvicorn", "python_multipart", "prometheus_client"), "viper serve")
    settings = settings_of(serving, allow_exec=serving.allow_exec, log_queries=serving.log_queries)
    from viper.serve.app import create_app
    from viper.serve.service import serve as serve_until_signal

    with cli.open_reasoner(serving, many_queries=True) as reasoner:
        app = create_app(reasoner, settings)
        serve_until_signal(app, app.state.service)


@click.command(
    cls=SectionedCommand, first="media_roots http host port token_env profile api workers offline"
)
@cli.options_as(McpOptions)
def mcp(serving: McpOptions) -> None:
    """Offer the API to an agent over the Model Context Protocol.

    The agent reads the API, sends a program, and the sandbox runs it. Its client starts this
    command and speaks over standard input; --http listens for clients at /mcp instead. The tools
    read only files under a --media-root.

    \b
    claude mcp add viper -- viper mcp --media-root ~/pictures
    viper mcp --http --port 8000 --media-root /srv/pictures
    """
    need_packages(("mcp", "prometheus_client"), "viper mcp")
    if not serving.media_roots:
        raise UsageError(
            "no --media-root; name the folder with the files that agents may look at, "
            "such as --media-root ."
        )
    settings = settings_of(serving, allow_exec=True)
    from viper.serve.mcp_server import PATH, create_mcp_app, create_server, serve_stdio
    from viper.serve.service import Service
    from viper.serve.service import serve as serve_until_signal

    with cli.open_reasoner(serving, many_queries=True) as reasoner:
        service = Service(reasoner, settings)
        server = create_server(service)
        if serving.http:
            serve_until_signal(create_mcp_app(server, service), service, PATH)
        else:
            serve_stdio(server, service)


def settings_of(serving: AddressOptions, **more: bool) -> ServeSettings:
    """Return the settings of a server that the options of a command describe."""
    names = {field.name for field in fields(ServeSettings)} & vars(serving).keys()
    values = {name: getattr(serving, name) for name in names} | more
    named = serving.token_env
    token = os.environ.get(named or TOKEN_ENV)
    if named is not None and token is None:
        raise UsageError(f"--token-env {named}: no such variable in the environment; set it first")
    settings = ServeSettings(token=token, **values)
    if settings.allow_exec and serving.sandbox == "weak" and not is_loopback(settings.host):
        raise UsageError(
            "programs of callers would run in a weak sandbox; leave out --sandbox weak (or "
            "--allow-exec), or listen on 127.0.0.1"
        )
    return settings
