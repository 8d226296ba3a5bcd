"""Progress on stderr: a spinner on a terminal, plain lines elsewhere, nothing on stdout."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click


@contextmanager
def status(message: str) -> Iterator[None]:
    """Shows what is being done while the block runs."""
    if not sys.stderr.isatty():
        click.echo(f"{message} …", err=True)
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(f"{message} …"):
        yield
