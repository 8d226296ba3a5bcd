"""Where an OpenAI-compatible endpoint is, what it is called in records, and its key.

The key is read from an environment variable and goes into the client alone. It is part of
no name and no ``repr``, and whatever an error quotes of the endpoint is cleaned of it first.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from viper.errors import UsageError

OFFICIAL_URL = "https://api.openai.com/v1"

PLACEHOLDER = "no-key-needed"
"""Sent to endpoints that ask for no key; the client insists on some."""

_HIDDEN = "[key]"

_SECRET = 8
"""Characters that a key has at least if it is one."""


@dataclass(frozen=True)
class Endpoint:
    """An address, the environment variable that holds its key, and the key."""

    base_url: str
    key_env: str
    key: str = field(repr=False)

    @property
    def official(self) -> bool:
        """Whether it is OpenAI's own."""
        return _is_official(self.base_url)

    @property
    def place(self) -> str:
        """Host, port and path."""
        parts = urlsplit(self.base_url)
        return f"{parts.netloc}{parts.path.rstrip('/')}"

    def hiding_key(self, text: str) -> str:
        """The text with the key replaced; for messages that quote the endpoint, not for answers.

        A key too short to be a secret, as ``EMPTY``, stays: it may be any word.
        """
        return text if len(self.key) < _SECRET else text.replace(self.key, _HIDDEN)


def find_endpoint(base_url: str | None, key_env: str) -> Endpoint:
    """The endpoint meant: ``base_url``, else ``OPENAI_BASE_URL``, else the official one.

    Raises:
        UsageError: an address that is none or that holds a password; the official endpoint
            without a key; a key that no header can hold.
    """
    address = base_url or os.environ.get("OPENAI_BASE_URL") or OFFICIAL_URL
    _check_address(address)
    key = os.environ.get(key_env, "").strip()
    if not key and _is_official(address):
        raise UsageError(
            f"the environment variable {key_env} is empty and {address} needs a key; "
            "export it, or name another endpoint with base_url"
        )
    if not (key.isascii() and key.isprintable()):
        raise UsageError(
            f"the environment variable {key_env} holds characters that no key has; "
            "export the key alone"
        )
    return Endpoint(address, key_env, key or PLACEHOLDER)


def _is_official(address: str) -> bool:
    return urlsplit(address).hostname == urlsplit(OFFICIAL_URL).hostname


def _check_address(address: str) -> None:
    try:
        parts = urlsplit(address)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or "@" in parts.netloc:
        raise UsageError(
            "base_url is no plain address; expected one as http://localhost:8000/v1, "
            "without user name and password"
        )
