"""The task of a query that names none, from its words and media.

:func:`resolve_task` takes the polite words off a request and looks at its verb: *find all coins*
asks for boxes, *turn the cat blue* for another picture, *read the sign* for words.
"""

from __future__ import annotations

import re

from viper.schema import Query

# Openings of questions. People leave the question mark out, and a question that is read as a
# phrase to ground would get a box; phrases such as ``the cup`` open with none of these.
_ASKING = re.compile(
    r"^((hey|hi|hello|ok|okay|so|well|please|um|hmm|and|now|then)\b[,.!]?\s+)*("
    r"(what|which|who|whose|where|when|why|how)('?s|'?re)?|"
    r"(is|are|was|were|does|do|did|has|have)(n't|nt)?|"
    r"(can't|(can|could|would|will|should)(n't)?) (you|i|we|it|this|that|there)|"
    r"(name|check) (the|all|every|each|what|which|how|if|whether)|"
    r"read|write|translate|transcribe|describe|caption|summari[sz]e|list|explain|give me|guess|"
    r"((the|main|biggest|first|last) )*(brand|name|colou?rs?|number|text|words?|letters|date|price|"
    r"time|kind|type)( names?)? (of|on|in|at|written|printed)|([a-z'-]+ ){1,3}colou?r\W*$|"
    r"(to|with|in|on|of|at|for|from|by) (what|which|whom?|whose)|"
    r"count|sum|add up|any|tell me|i wonder|i want to know|i('d| would) like to know|true or false"
    r")\b|.*, (what|how|is (it|he|she|that|there)|are (they|there))\b"
)
# Words before a request, which say nothing about what is wanted.
_POLITE = re.compile(
    r"^((hey|hi|hello|ok|okay|so|well|please|now|just|kindly)\b[,.!]?\s+|"
    r"((can|could|would|will) you|i (want|would like) you to|help me( to)?)\s+)*"
)
# Requests for a place in the picture. The later verbs are nouns too: ``box on the shelf``.
_LOCATING = re.compile(
    r"^((find|locate|detect|show( me)?|point (out|at|to))(?! (out|how|what|which|if|whether)\b)|"
    r"(mark|box|highlight|outline|circle|segment)"
    r"(?= (the|all|every|each|both|any|that|this)\b))\s+"
)
_BOXES = re.compile(
    r"\b(put|draw) (a |the )?(bounding )?box(es)? (around|on|over)"
    r"(?P<several> (all|every|each|both)\b)?"
)
_COUNTED = "two|three|four|five|six|seven|eight|nine|ten|[0-9]+"
_SEVERAL = re.compile(
    rf"(all|every|each|both|any)\b(?! the way\b)|((the|these|those) )?({_COUNTED}) [a-z]|"
    r"(?!.*\b(the|an?|that|this|my|his|her|their)\b)([a-z-]+ ){0,2}[a-z-]+[^s\W]s$|.*\ball of them$"
)
# Only a named thing can be changed or tagged: ``replace parts`` may itself name something.
_WHICH = r"(the|all|every|each|everything|everyone|any|my|his|her|their|this|that|both)\b"
_EDITING = re.compile(
    r"^((replace|hide|blur|remove|erase|cover|(re)?colou?r|turn|swap|exchange|paint|change|delete|"
    rf"pixelate|crop|cut out|darken|brighten|rotate|flip|mirror|invert|make) {_WHICH}(?!.*\?$)|"
    r"(create|make) (a )?colou?r ?pop)"
)
_TAGGING = re.compile(rf"^(tag|label) {_WHICH}")


def resolve_task(query: Query, usual: str = "auto") -> tuple[str, str]:
    """Return the task of a query and, for ``auto``, the reason for the choice.

    Args:
        usual: task of queries without options, ``auto`` to read it from their words and media.

    Options make a choice, fields an extraction. "tag the …", and a request to find several things,
    ask for tags; "replace the …" and similar words for an edit. A question mark, an opening
    question word or a request to read or describe makes a question. Any other text about one
    picture names an object to ground.
    """
    if query.task != "auto":
        return query.task, "as asked"
    if query.options:
        return "choice", "options were given"
    if query.fields:
        return "extract", "fields were given"
    if usual != "auto":
        return usual, "the usual task of the profile"
    text = query.text.strip().lower()
    if query.media == "video":
        return "question", "a video without options"
    request = _POLITE.sub("", text)
    if _TAGGING.match(request):
        return "tag", "asks for tags"
    if _EDITING.match(request.rstrip("?") if request != text else request):
        return "edit", "asks for a change"
    locates = _LOCATING.match(request)
    if query.media == "image" and (locates or not text.endswith("?")):
        named = request[locates.end() if locates else 0 :].removeprefix("me ").rstrip(" .!?")
        if (locates or named.startswith(("all ", "every ", "each ", "both "))) and _SEVERAL.match(
            named
        ):
            return "tag", "asks for all things of a kind"
    boxes = _BOXES.search(text)
    if boxes and boxes["several"]:
        return "tag", "asks for all things of a kind"
    if boxes or locates:
        return "ground", "asks for a place"
    if text.endswith("?") or _ASKING.match(text):
        return "question", "worded as a question"
    if query.media == "images":
        return "statement", "a statement about several pictures"
    return "ground", "names something in a picture"


def named_things(text: str) -> str:
    """Return what a request to find things names, without its verb: ``all coins``."""
    return _LOCATING.sub("", _POLITE.sub("", text.lower())).strip(" .!?")
