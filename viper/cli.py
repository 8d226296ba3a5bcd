"""The command line: groups of thin commands, which stand in ``viper/commands``.

Exit codes: 0 success, 1 no answer, a part failed or the output could not be written, 2 wrong
arguments or input, 130 interrupted.
stdout carries the result, stderr everything else.
"""

from __future__ import annotations

import click

from viper.commands.lazy_group import LazyGroup
from viper.commands.terminal import end_with
from viper.errors import EXIT_OK

# fmt: off
_COMMANDS = {
    "run": ("viper.commands.run:run", "Answer a question about images or a video.", "Ask"),
    "exec": ("viper.commands.exec:execute", "Run your own program in the sandbox.", "Ask"),
    "apply": ("viper.commands.apply:apply", "Run one program on all pictures of a folder.", "Ask"),
    "fit": ("viper.commands.fit:fit",
        "Fit a program to a few labels, to answer about many pictures.", "Ask"),
    "review": ("viper.commands.review:review",
        "Label the cases of a job that tell most, in a browser.", "Ask"),
    "audit": ("viper.commands.audit:audit",
        "List the labels of a table that are probably wrong.", "Ask"),
    "watch": ("viper.commands.watch:watch",
        "Tell when a condition begins to hold in a video.", "Ask"),
    "export": ("viper.commands.exported:export",
        "Write the program of an answer as a script of your own.", "Ask"),
    "demo": ("viper.commands.demo:demo", "Ask about images and videos in a browser.", "Ask"),
    "eval": ("viper.commands.eval:evaluate",
        "Answer a data set, score the answers and keep every result.", "Evaluate"),
    "data": ("viper.commands.data:data",
        "List, check and show data sets; score predictions made elsewhere.", "Evaluate"),
    "ace": ("viper.commands.ace:ace",
        "Build and check in-context examples; tune temperature and thresholds.", "Improve"),
    "learn": ("viper.commands.groups:learn", "Learn from labelled samples and from feedback.",
        "Improve"),
    "view": ("viper.commands.view:view", "Browse runs in a browser: filter, compare.", "Inspect"),
    "report": ("viper.commands.report:report", "Write tables and pages of runs; compare two runs.",
        "Inspect"),
    "serve": ("viper.commands.serve:serve", "Answer over HTTP.", "Serve"),
    "mcp": ("viper.commands.serve:mcp", "Offer the API to an agent over MCP.", "Serve"),
    "setup": ("viper.commands.groups:setup",
        "Check this machine; manage profiles, routines and indexes.", "Set up"),
    "demo-questions": ("viper.commands.demo:demo_questions", "", ""),
    "seek": ("viper.commands.seek:seek", "", ""),
    "env": ("viper.commands.env:env", "", ""),
    "help": ("viper.cli:show_help", "", ""),
}
_OLD_NAMES = {
    "score": "data score", "pool": "ace pool", "feedback": "learn feedback",
    "prompts": "learn prompts", "tune": "learn", "doctor": "setup doctor",
    "profile": "setup profile", "routine": "setup routine", "index": "setup index",
    "world": "lab world", "reproduce": "lab reproduce", "seek": "lab seek",
    "calibrate": "learn confidence",
}
# fmt: on


@click.group(
    cls=LazyGroup,
    paths=_COMMANDS,
    old_names=_OLD_NAMES,
    below=("",),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
Exit codes:
  0    success
  1    no answer, a part failed, or the output could not be written
  2    wrong arguments or input
  130  interrupted by Ctrl-C

\b
Environment variables:
  VIPER_HOME         folder for pools, caches and your profiles
  OPENAI_API_KEY     key of the model endpoint; a profile's key_env names another variable
  OPENAI_BASE_URL    address of the model endpoint
  VIPER_SERVE_TOKEN  token that callers of viper serve must send
  HF_HOME            cache of downloaded models; HF_HUB_OFFLINE=1 forbids downloads""",
)
@click.version_option(package_name="viper-reasoner", prog_name="viper")
def cli() -> None:
    """Visual reasoning by programs.

    A language model writes a Python program for your question. A sandbox runs the program,
    and vision models answer its calls.

    \b
    viper run table.png "the leftmost cube" --save answer.png
    viper run clip.mp4 "what starts moving first?" --options "the blue cube; the green cone"
    viper setup doctor
    viper help learn
    """


@click.command("help")
@click.argument("words", nargs=-1, metavar="[COMMAND]...",
    shell_complete=lambda ctx, _, incomplete: cli.shell_complete(ctx, incomplete))  # fmt: skip
def show_help(words: tuple[str, ...]) -> None:
    """Show the help of a command."""
    cli.main([*words, "--help"], prog_name="viper", standalone_mode=False)


@cli.result_callback()
def exit_code(code: object, **_: object) -> int:
    """Return the exit code of a command; a command that returns nothing succeeded."""
    return code if isinstance(code, int) else EXIT_OK


def main(argv: list[str] | None = None) -> None:
    """Run a command line of viper, and end the process with its exit code."""
    end_with(cli, argv)
