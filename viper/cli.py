"""The command line: a group of thin commands, each in its own file under ``viper/commands``.

Exit codes: 0 answered, 1 the run ended without an answer or a part failed, 2 the call
or its input was wrong, 130 interrupted. stdout carries the result, stderr the rest.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from viper.commands.lazy_group import LazyGroup
from viper.errors import EXIT_FAILED, EXIT_INTERRUPTED, ViperError

_COMMANDS = {
    "run": ("viper.commands.run:run", "Answer a question about pictures or a video."),
    "exec": ("viper.commands.exec:execute", "Run a program of your own in the sandbox."),
    "doctor": ("viper.commands.doctor:doctor", "Say what works on this machine and what does not."),
    "routine": ("viper.commands.routine:routine", "Routines of your own: new, check, show, try."),
    "profile": (
        "viper.commands.profile:profile",
        "Which models play which role: list, check, new.",
    ),
    "serve": ("viper.commands.serve:serve", "Answer over HTTP."),
    "demo": ("viper.commands.demo:demo", "Ask about pictures and clips in a browser."),
    "eval": ("viper.commands.eval:evaluate", "Answer a data set, judge it, keep everything."),
    "score": ("viper.commands.score:score", "Score predictions that somebody else made."),
    "data": ("viper.commands.data:data", "Data sets: list, check, show."),
    "report": (
        "viper.commands.report:report",
        "Tables and pages of evaluation runs; compare two.",
    ),
    "view": ("viper.commands.view:view", "Look through runs in a browser: filter, compare."),
    "feedback": ("viper.commands.feedback:feedback", "Say what would have been right."),
    "ace": ("viper.commands.ace:ace", "In-context examples: mine them from labelled samples."),
    "learn": ("viper.commands.learn:learn", "Learn from samples: find the fault, teach the tool."),
    "pool": (
        "viper.commands.pool:pool",
        "Demonstrations of plans and programs: start, show.",
    ),
    "index": ("viper.commands.index:index", "Pictures and texts to look things up in."),
    "seek": ("viper.commands.seek:seek", "Searches step by step: graphs, and what was done."),
    "tune": ("viper.commands.tune:tune", "An agent's workflows; an agent tuned on them."),
    "prompts": ("viper.commands.prompts:prompts", "What tools have learned: list, roll back."),
    "demo-questions": (
        "viper.commands.demo:demo_questions",
        "Ask the three questions of `make demo`.",
    ),
}


@click.group(
    cls=LazyGroup,
    paths=_COMMANDS,
    below="",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 answered, 1 no answer, 2 wrong call or input, 130 interrupted.",
)
@click.version_option(package_name="viper-reasoner", prog_name="viper")
def cli() -> None:
    """Visual reasoning by programs.

    A language model writes a Python program for your question, a sandbox runs it,
    vision models answer its calls.

    \b
    viper run table.png "the leftmost cube" --save answer.png
    viper run clip.mp4 "what happens first?" --options "the ball stops; the cube appears"
    viper doctor
    """


def main(argv: list[str] | None = None) -> None:
    """Runs the command line and ends the process with its exit code."""
    try:
        code = cli.main(args=argv, prog_name="viper", standalone_mode=False)
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
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = EXIT_FAILED
    except OSError as error:
        if error.filename is None:
            raise
        click.echo(f"viper: {error.filename}: {error.strerror}; give another place", err=True)
        code = EXIT_FAILED
    sys.exit(_as_code(code))


def _interrupted() -> int:
    click.echo("viper: interrupted", err=True)
    return EXIT_INTERRUPTED


def _as_code(value: Any) -> int:
    return value if isinstance(value, int) else 0
