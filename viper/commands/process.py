"""The end of a command line: every error as one line on stderr, and an exit code."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress

import click

from viper.errors import EXIT_FAILED, EXIT_INTERRUPTED, ViperError


def end_with(
    command: click.Command, argv: list[str] | None = None, prog_name: str = "viper"
) -> None:
    """Run a command line, and end the process with its exit code.

    Args:
        argv: the arguments; those of the process if None.
        prog_name: name of the command in its help and errors.
    """
    try:
        code = command.main(args=argv, prog_name=prog_name, standalone_mode=False)
        if sys.stdout is not None:  # None if the caller closed it
            sys.stdout.flush()
    except click.exceptions.Abort:
        code = _interrupted()
    except KeyboardInterrupt:
        code = _interrupted()
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except ViperError as error:
        click.echo(f"viper: {error}", err=True)
        code = error.exit_code
    except SystemExit:  # click ends so if a pipe is closed
        code = _output_lost(os.strerror(errno.EPIPE))
    except OSError as error:
        if error.filename is not None:
            click.echo(f"viper: {error.filename}: {error.strerror}; give another place", err=True)
            code = EXIT_FAILED
        elif error.errno == errno.ENOSPC:
            code = _output_lost(os.strerror(error.errno))
        else:
            raise
    sys.exit(code)


def _output_lost(reason: str) -> int:
    with suppress(OSError):  # stderr may be lost as well
        click.echo(f"viper: the output could not be written ({reason})", err=True)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
    return EXIT_FAILED


def _interrupted() -> int:
    click.echo("viper: interrupted", err=True)
    return EXIT_INTERRUPTED
