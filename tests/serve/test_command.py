"""``viper serve`` on the command line: what it refuses, before anything is loaded."""

from __future__ import annotations

import importlib.util
import socket
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from viper.commands.serve import serve
from viper.errors import MissingExtraError, UsageError
from viper.serve.settings import ServeSettings


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[ServeSettings]:
    """Settings with which a server would have been started."""
    seen: list[ServeSettings] = []

    class Nothing:
        def __enter__(self) -> None: ...
        def __exit__(self, *_: object) -> None: ...

    monkeypatch.delenv("VIPER_SERVE_TOKEN", raising=False)
    monkeypatch.setattr("viper.commands.options.open_reasoner", lambda *_, **__: Nothing())
    monkeypatch.setattr(
        "viper.serve.service.serve", lambda _, service: seen.append(service.settings)
    )
    return seen


def call(*arguments: str) -> Any:
    """What the command does, errors raised as they are."""
    return CliRunner().invoke(serve, arguments, standalone_mode=False, catch_exceptions=False)


def test_defaults(opened: list[ServeSettings]) -> None:
    assert call().exit_code == 0
    assert opened == [ServeSettings()]


def test_every_option_reaches_the_settings(
    opened: list[ServeSettings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "x" * 32)
    call(
        *("--host", "0.0.0.0", "--port", "0", "--token-env", "MY_TOKEN", "--workers", "3"),
        *("--queue", "0", "--max-upload-mb", "1.5", "--max-files", "2", "--deadline-s", "9"),
        *("--max-megapixels", "7"),
        *("--grace-s", "1", "--media-root", str(tmp_path), "--allow-exec", "--log-queries"),
    )
    assert opened == [
        ServeSettings(
            host="0.0.0.0",
            port=0,
            token="x" * 32,
            workers=3,
            queue=0,
            max_upload_mb=1.5,
            max_files=2,
            max_megapixels=7.0,
            deadline_s=9.0,
            grace_s=1.0,
            media_roots=(tmp_path,),
            allow_exec=True,
            log_queries=True,
        )
    ]


def test_the_usual_variable_is_read_without_being_named(
    opened: list[ServeSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIPER_SERVE_TOKEN", "y" * 32)
    call()
    assert opened[0].token == "y" * 32


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--host", "0.0.0.0"), "there is no token"),
        (("--token-env", "NOT_SET_ANYWHERE"), "no such variable"),
        (("--media-root", "/no/such/folder"), "no such folder"),
    ],
)
def test_one_line_says_what_is_wrong(
    opened: list[ServeSettings], arguments: tuple[str, ...], says: str
) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        call(*arguments)
    assert "\n" not in str(caught.value) and opened == []


def test_programs_of_others_need_the_strict_sandbox(
    opened: list[ServeSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    call("--allow-exec", "--sandbox", "weak")
    monkeypatch.setenv("VIPER_SERVE_TOKEN", "y" * 32)
    call("--host", "0.0.0.0", "--sandbox", "weak")
    with pytest.raises(UsageError, match="weak sandbox"):
        call("--host", "0.0.0.0", "--allow-exec", "--sandbox", "weak")
    assert len(opened) == 2


def test_an_empty_variable_is_no_token(
    opened: list[ServeSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIPER_SERVE_TOKEN", "")
    with pytest.raises(UsageError, match="the token has 0 characters"):
        call()


def test_a_missing_package_is_one_line(
    opened: list[ServeSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match='pip install "viper-reasoner"') as caught:
        call()
    assert caught.value.package == "fastapi"


def test_a_port_in_use() -> None:
    from viper.serve.settings import listening_at

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1:{port}"):
            listening_at("127.0.0.1", port)


@pytest.mark.parametrize(
    "wrong",
    [
        {"workers": 0},
        {"queue": -1},
        {"max_upload_mb": 0},
        {"max_files": 0},
        {"deadline_s": 0},
        {"deadline_s": float("nan")},
        {"grace_s": -1},
        {"port": -1},
    ],
    ids=str,
)
def test_values_out_of_range(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(UsageError, match=name):
        ServeSettings(**wrong)
