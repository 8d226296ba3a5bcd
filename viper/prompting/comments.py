"""Comments of programs, which prompts can do without."""

from __future__ import annotations

import io
import tokenize


def without_comments(program: str) -> str:
    """The program without its whole-line comments; one that is not Python stays as it is."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(program).readline))
    except (tokenize.TokenError, SyntaxError):
        return program
    comments = {
        token.start[0]
        for token in tokens
        if token.type == tokenize.COMMENT and token.line.lstrip().startswith("#")
    }
    lines = enumerate(program.split("\n"), start=1)
    return "\n".join(line for number, line in lines if number not in comments)
