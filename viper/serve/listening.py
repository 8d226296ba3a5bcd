"""A socket to listen on, or one line that says why not."""

from __future__ import annotations

import socket

from viper.errors import UsageError


def listening_at(host: str, port: int) -> socket.socket:
    """A socket bound to an address; port 0 takes a free one.

    Raises:
        UsageError: it is taken, or not an address of this machine.
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
    """The ``http://`` address of what is served there."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{path}"
