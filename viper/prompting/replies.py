r"""Reads the replies of language models; every use of a reply begins here.

A reply may open with reasoning, wrap its code in fences, tags, JSON or tool calls, state its answer
in prose, refuse, or stop at its limit. These readers understand the forms; the parser of each use
(program, action, plan, choice, verdict) then reads what remains.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

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

# Marks around the reasoning of the common families of models, as regular expressions.
_REASONING = (
    (r"<think>", r"</think>"),
    (r"<thinking>", r"</thinking>"),
    (r"<reasoning>", r"</reasoning>"),
    (r"<seed:think>", r"</seed:think>"),
    (r"\[THINK\]", r"\[/THINK\]"),
    ("◁think▷", "◁/think▷"),
    (r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),
    (r"<\|channel>\s*thought", r"<channel\|>"),
)

_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)[^<]*<\|message\|>")
_SPECIAL = re.compile(r"<\|(?:start|end|return|call|channel|message|constrain)\|>")

_LONGEST_QUOTE = 120
# Number of tags, and of brackets at which JSON may begin, that are tried in a reply.
_MOST_MARKS = 50


def without_reasoning(text: str) -> str:
    """Return a reply without the model's reasoning.

    A closing mark without an opening one ends reasoning that the prompt opened. An opening mark at
    the start of a line that is never closed begins reasoning that was cut off.
    """
    channels = list(_CHANNEL.finditer(text))
    if channels:
        final = [channel for channel in channels if channel[1] == "final"]
        text = _SPECIAL.split(text[final[-1].end() :])[0] if final else ""
    for opening, closing in _REASONING:
        text = re.sub(f"{opening}.*?{closing}", "", text, flags=re.DOTALL | re.IGNORECASE)
        text = re.split(closing, text, flags=re.IGNORECASE)[-1]
        text = re.split(rf"^[ \t]*{opening}", text, flags=re.MULTILINE | re.IGNORECASE)[0]
    return text


def first_line(reply: str) -> str:
    """Return the first line of a reply that is not blank, without reasoning; "" if there is
    none.
    """
    lines = map(str.strip, without_reasoning(reply).splitlines())
    return next(filter(None, lines), "")


def json_parts(text: str) -> Iterator[tuple[int, int, Any]]:
    """Yield begin, end and value of each JSON object and array in a text."""
    decoder, end = json.JSONDecoder(strict=False), 0
    for bracket in list(re.finditer(r"[{\[]", text))[:_MOST_MARKS]:
        if bracket.start() < end:
            continue
        try:
            value, end = decoder.raw_decode(text, bracket.start())
        except (ValueError, RecursionError):
            continue
        yield bracket.start(), end, value


def json_fields(text: str) -> dict[str, str]:
    """Return the fields of the first JSON object in a text as texts, nested ones included."""
    objects = (value for _, _, value in json_parts(text) if isinstance(value, dict) and value)
    return _flat(next(objects, {}))


def _flat(value: Mapping[str, Any]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for key, item in value.items():
        if isinstance(item, dict):
            fields |= _flat(item)
        elif item is not None:
            fields[str(key).lower()] = item if isinstance(item, str) else json.dumps(item)
    return fields


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
    return _json_in_fences(_tags_in_fences(_INLINE_FENCE.sub(r"\n\1", reply)))


def _fenced(code: str) -> str:
    return f"\n{code}\n" if FENCE.search(code) else f"\n~~~~~~python\n{code}\n~~~~~~\n"


def _tags_in_fences(text: str) -> str:
    pieces, place = list[str](), 0
    for opening in list(_CODE_TAG.finditer(text))[:_MOST_MARKS]:
        if opening.start() < place:
            continue
        code, end = _tagged(text, opening.end())
        pieces += [text[place : opening.start()], _fenced(code.strip("\n")) if code.strip() else ""]
        place = end
    return "".join([*pieces, text[place:]])


def _tagged(text: str, begin: int) -> tuple[str, int]:
    """Return the code after an opening tag and its end.

    It ends before the first tag at which it parses, so that a tag in a string does not cut it.
    """
    tags = list(_ANY_TAG.finditer(text, begin))[:_MOST_MARKS]
    ends = [(tag.start(), tag.end() if _CLOSES.match(tag[0]) else tag.start()) for tag in tags]
    ends.append((len(text), len(text)))
    good = (end for end in ends if _is_code(text[begin : end[0]]))
    last, place = next(good, ends[0])
    return text[begin:last], place


def _is_code(text: str) -> bool:
    return bool(text.strip()) and bool(FENCE.search(text) or syntax_tree(tidy(text)))


def _json_in_fences(text: str) -> str:
    pieces, place = list[str](), 0
    for begin, end, value in json_parts(text):
        code = _code_in_json(value)
        before = _BEFORE_JSON.search(text, place, begin)
        if code and before and len(FENCE.findall(text[: before.start()])) % 2 == 0:
            pieces += [text[place : before.start()], _fenced(code)]
            after = _AFTER_JSON.match(text, end)
            place = after.end() if after else end
    return "".join([*pieces, text[place:]])


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


_BOXED = re.compile(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}")
_ANSWER_TAG = re.compile(r"<(?:final_)?answer>\s*(.*?)\s*</(?:final_)?answer>", re.DOTALL | re.I)
_ANSWER_LINE = re.compile(
    r"^[^\w\n]*(?:(?:so|thus|hence|therefore),?\s+)?(?:(?:my|the)\s+)?"
    r"(?:(?:final|correct|best|right)\s+)?answer(?:\s+to\s[^:\n]{1,80}?)?[\s*_`]*(?:is\b\s*:?|:|=)[\s*_`]*"
    r"(?!not\b|unclear|unknown|probably|still)(\S.{0,200})$",
    re.MULTILINE | re.IGNORECASE,
)


def final_answer(reply: str) -> str:
    r"""Return the answer that a reply states in words, or "" if it states none.

    The last ``\boxed{3}`` counts, else ``<answer>3</answer>``, the field ``answer`` of JSON, and
    lines such as ``The answer is 3.`` and ``**Final answer:** 3``.
    """
    text = without_reasoning(reply)
    if boxed := _BOXED.findall(text):
        return re.sub(r"\\(?:text|mathrm|textbf)\{([^{}]*)\}", r"\1", boxed[-1]).strip(" $")
    if tagged := _ANSWER_TAG.findall(text):
        return str(tagged[-1])
    fields = json_fields(text)
    lines = [fields.get("final_answer", fields.get("answer", "")), *_ANSWER_LINE.findall(text)]
    return lines[-1].strip().strip("*_`$\"'").removesuffix(".").strip("*_`$\"' ")


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
            "raise max_tokens or write a shorter program",
        )
    quote = f"{' '.join(reply.strip('`~ ').split())[:_LONGEST_QUOTE]!r}"
    is_program = is_complete(code) or line_program(code) is not None
    if finish_reason == "refusal" or (not is_program and is_refusal(reply.strip("`~ \n"))):
        return Failure(
            "refusal",
            f"the model refused to write a program: {quote}; "
            "word the query in another way or use another model",
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
