"""Reads the code in the replies of language models.

A reply may wrap its code in fences, tags, JSON or tool calls, refuse, or stop at its limit.
:func:`read_program` removes the reasoning (:mod:`viper.models.llm.replies`), puts code of any form
in fences (:func:`in_fences`) and judges what it finds. The parsers of other uses (action, plan,
choice, verdict) begin with the same readers.
"""

from __future__ import annotations

import ast
import re
from typing import Any

from viper.models.llm.replies import json_parts, without_reasoning
from viper.prompting.extract import (
    FENCE,
    defines_entry,
    extract_code,
    is_complete,
    line_program,
    syntax_tree,
    tidy,
)
from viper.schema import Failure

# Characters of a reply that a failure quotes: about one line, enough to see an apology or another
# format.
_LONGEST_QUOTE = 120
# Tags of code that are tried in a reply: a reply full of tags must not take seconds to read.
_MOST_MARKS = 50

_CODE_KEYS = ("code", "program", "python", "python_code", "source", "script")
_CALL_KEYS = ("arguments", "parameters", "args", "input", "action_input", "function", "action")


def _code_in_json(value: Any) -> str:
    """Return the code in a JSON value, such as the arguments of a tool call; "" if there is
    none.
    """
    if isinstance(value, list):
        return next(filter(None, map(_code_in_json, value)), "")
    if not isinstance(value, dict):
        return ""
    for key in _CODE_KEYS:
        if isinstance(value.get(key), str) and value[key].strip():
            return str(value[key])
    for key in _CALL_KEYS:
        inner = value.get(key)
        if isinstance(inner, str):  # some servers send arguments as a text of JSON
            inner = next((part for _, _, part in json_parts(inner)), None)
        if code := _code_in_json(inner):
            return code
    return ""


_INLINE_FENCE = re.compile(r"(?<=\S)[ \t]*(```(?:python|py|tool_code)[ \t]*)$", re.MULTILINE)
_CODE_TAG = re.compile(
    r"<\s*(?:code|python|execute|execute_python|execute_ipython|tool_code|parameter=code)\s*>"
    r"|<\|python_tag\|>",
    re.IGNORECASE,
)
_ANY_TAG = re.compile(
    r"<\s*/?\s*(?:code|python|execute|execute_python|execute_ipython|tool_code|parameter|thought|done"
    r"|result)\s*/?>",
    re.IGNORECASE,
)
_CLOSES = re.compile(r"<\s*/")
# A fence or tag around JSON; elsewhere a line, a tag or a colon must end before it.
_BEFORE_JSON = re.compile(
    r"(?:^[ \t]*(?:```|~~~)[ \t]*\w*\s*\n[ \t]*|<tool_call>\s*|^[ \t]*|(?<=[>:\]])\s*)\Z",
    re.MULTILINE,
)

_AFTER_JSON = re.compile(r"\s*</tool_call>|[ \t]*\n\s*(?:```|~~~)[ \t]*$|", re.MULTILINE)


def in_fences(reply: str) -> str:
    """Return a reply in which code between tags, in JSON and in tool calls is in fences."""
    text = _INLINE_FENCE.sub(r"\n\1", reply)
    pieces, place = list[str](), 0
    for opening in list(_CODE_TAG.finditer(text))[:_MOST_MARKS]:
        begin = opening.end()
        if opening.start() < place:
            continue
        pieces.append(text[place : opening.start()])
        tags = list(_ANY_TAG.finditer(text, begin))[:_MOST_MARKS]
        ends = [(tag.start(), tag.end() if _CLOSES.match(tag[0]) else tag.start()) for tag in tags]
        ends.append((len(text), len(text)))
        # Code ends before the first tag at which it parses, so a tag in a string does not cut it.
        last, place = next((end for end in ends if _is_code(text[begin : end[0]])), ends[0])
        pieces += [_fenced(text[begin:last].strip("\n"))] if text[begin:last].strip() else []
    text = "".join([*pieces, text[place:]])
    pieces, place = [], 0
    for begin, end, value in json_parts(text):
        code = _code_in_json(value)
        before = _BEFORE_JSON.search(text, place, begin)
        if code and before and len(FENCE.findall(text[: before.start()])) % 2 == 0:
            pieces += [text[place : before.start()], _fenced(code)]
            after = _AFTER_JSON.match(text, end)
            place = after.end() if after else end
    return "".join([*pieces, text[place:]])


def _fenced(code: str) -> str:
    return f"\n{code}\n" if FENCE.search(code) else f"\n~~~~~~python\n{code}\n~~~~~~\n"


def _is_code(text: str) -> bool:
    return bool(text.strip()) and bool(FENCE.search(text) or syntax_tree(tidy(text)))


_REFUSAL = re.compile(
    r"\W*(?:(?:i['’]?m|i am|we are)\s+(?:(?:really|very|so|truly)\s+)?"
    r"(?:sorry|afraid|unable|not able|not allowed|not comfortable)\b|(?:sorry|apologies)\b"
    r"|(?:my apologies|i apologi[sz]e|i must (?:decline|refuse)|i decline|as an ai)\b"
    r"|i\s+(?:cannot|can\s?not|can['’]t|won['’]t|will not)\b|unfortunately,? i\b)",
    re.IGNORECASE,
)


def is_refusal(text: str) -> bool:
    """Return whether a text without code or steps opens as a refusal does."""
    return _REFUSAL.match(text) is not None


def read_program(text: str, finish_reason: str = "stop", tokens: int = 0) -> str | Failure:
    """Return the program in a reply, or the reason why there is none.

    The last complete program wins, even in a reply that stopped at its limit. Code that does not
    parse is returned for the sandbox to judge.

    Args:
        finish_reason: ``stop``, ``length`` or ``refusal``.
        tokens: length of the reply in tokens, for the message; 0 if it is unknown.

    Returns:
        The program, or a failure of kind ``refusal``, ``truncated`` or ``no_program``.
    """
    reply = in_fences(without_reasoning(text)).strip()
    code = extract_code(reply)
    if finish_reason == "length":
        if is_complete(code) and _is_whole(code, reply):
            return code
        length = f"{tokens} tokens" if tokens else "its greatest length"
        return Failure(
            "truncated",
            f"the reply was cut off after {length}, before its program was complete; "
            "write a shorter program",
            advice="raise max_tokens",
        )
    quote = f"{' '.join(reply.strip('`~ ').split())[:_LONGEST_QUOTE]!r}"
    is_program = is_complete(code) or line_program(code) is not None
    if finish_reason == "refusal" or (not is_program and is_refusal(reply.strip("`~ \n"))):
        return Failure(
            "refusal",
            f"the model refused to write a program: {quote}",
            advice="word the query in another way or use another model",
        )
    if is_program or defines_entry(code) or (FENCE.search(reply) and code) or is_script(code):
        return code
    return Failure(
        "no_program",
        f"the reply held no program but {quote}; "
        "reply with one fenced block of Python that defines execute_command()",
    )


def _is_whole(code: str, reply: str) -> bool:
    """Return whether a program ended before its reply was cut off.

    Other text follows it, or its last statement returns.
    """
    last = code.splitlines()[-1].strip()
    rest = reply[reply.rindex(last) + len(last) :].strip("\n") if last in reply else ""
    if rest.strip():
        return not rest.startswith((" ", "\t"))
    tree = syntax_tree(code)
    ends = tree.body[-1] if tree else None
    return isinstance(ends, ast.FunctionDef) and isinstance(ends.body[-1], ast.Return)


def is_script(code: str) -> bool:
    """Return whether a text parses and does more than name things."""
    tree = syntax_tree(code)
    return tree is not None and any(not isinstance(node, ast.Expr) for node in tree.body)
