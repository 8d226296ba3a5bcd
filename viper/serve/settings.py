"""Settings of a server: address, access and limits; and its socket."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass, field
from pathlib import Path

from viper.errors import UsageError

# 16 random characters cannot be guessed over a network; a word can.
MIN_TOKEN_CHARACTERS = 16


@dataclass(frozen=True)
class ServeSettings:
    """Settings of one server.

    Attributes:
        port: 0 takes a free one.
        token: token that callers must show; None for a server of this machine alone.
        workers: number of parallel runs.
        queue: requests that may wait or be sending, in addition to running ones.
        max_upload_mb: largest size of one request in MiB.
        max_files: most pictures or videos of one request.
        max_megapixels: most pixels of one request, in millions; the kept frames of a square video.
        deadline_s: time limit from a request's first byte to its answer.
        grace_s: time that a stopping server gives runs to finish.
        media_roots: folders whose files callers may name.
        allow_exec: whether callers may send their own programs.
        log_queries: whether queries and error messages are logged.

    Raises:
        UsageError: a value is out of range, a media root is not a folder, or other machines can
            reach the address and there is no token.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = field(default=None, repr=False)
    workers: int = 2
    queue: int = 16
    max_upload_mb: float = 64.0
    max_files: int = 8
    max_megapixels: float = 60.0
    deadline_s: float = 120.0
    grace_s: float = 20.0
    media_roots: tuple[Path, ...] = ()
    allow_exec: bool = False
    log_queries: bool = False

    def __post_init__(self) -> None:
        for name in ("workers", "max_upload_mb", "max_files", "max_megapixels", "deadline_s"):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name} is {getattr(self, name)!r}; it must be above 0")
        for name in ("queue", "grace_s", "port"):
            if not getattr(self, name) >= 0:
                raise UsageError(f"{name} is {getattr(self, name)!r}; it must be 0 or more")
        for root in self.media_roots:
            if not root.is_dir():
                raise UsageError(f"--media-root {root}: no such folder; name an existing one")
        token = self.token
        if token is None and not is_loopback(self.host):
            raise UsageError(
                f"--host {self.host} can be reached by others and there is no token; set one in "
                "the environment (VIPER_SERVE_TOKEN, or --token-env NAME), or listen on 127.0.0.1"
            )
        if token is not None and len(token) < MIN_TOKEN_CHARACTERS:
            raise UsageError(
                f"the token has {len(token)} characters; at least {MIN_TOKEN_CHARACTERS} are "
                'needed: python -c "import secrets; print(secrets.token_urlsafe(32))"'
            )
        if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
            raise UsageError(
                "the token holds characters that a header cannot carry; use ASCII letters"
            )

    @property
    def max_upload_bytes(self) -> int:
        return int(self.max_upload_mb * 1024 * 1024)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address. Only the name localhost counts."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listening_at(host: str, port: int) -> socket.socket:
    """Return a socket bound to an address. Port 0 takes a free one.

    Raises:
        UsageError: the address is in use, or is not an address of this machine.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(address[:2], family=family, backlog=128)  # type: ignore[arg-type]
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"cannot listen on {host}:{port}: {reason}; choose another --port"
        ) from None


def address_of(listening: socket.socket, path: str = "/") -> str:
    """Return the ``http://`` address of a listening socket."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{path}"
