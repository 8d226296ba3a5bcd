"""Alternative results of a call, each with a cost that says how implausible it is.

`alternatives_of` calls the function of the tool in `_CHANGES`, which computes the candidates again
and yields each other result with its cost.

The cost of a change is the evidence of the tool's own scores against it, in nats: the log of the
odds of the tool's result against the alternative. This makes the costs of different tools
comparable:

- a box let in or left out: the distance of its score's log-odds from the threshold's; another box
  first: the distance between the two;
- a yes or no: the distance of the score's log-odds from the threshold's;
- another text, patch, option or answer: the difference of the log-likelihoods;
- another order in depth: the relative difference of the two depths over ``DEPTH_ERROR``;
- another window in time: the difference of the scores' log-odds;
- a result of a tool without scores: ``UNSCORED``.

Several changes together cost the sum of their costs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from viper.schema import ToolCall
from viper.strategies.replay import restore_references
from viper.tools import candidates, tool_functions
from viper.tools.session import ToolSession

# Relative error in depth that is as implausible as one nat. Depth models give no likelihood, and
# patches whose depths differ by a few percent are easily in the other order.
DEPTH_ERROR = 0.05

# Cost of another result of a tool that gives no scores: less than an unknown error of the program
# (`Weighing.program`, 5), more than its edits that need no word of the query (1 to 2).
UNSCORED = 3.0

# Boxes near the threshold decide; pairs of boxes make the number of runs grow with its square.
MOST_BOXES = 6
# The likeliest other answers; each is one run of the program, of the 400 that a search may take.
MOST_ANSWERS = 12

# Scores are clipped to at least this distance from 0 and 1, where the log odds are infinite.
_SURE = 1e-6


@dataclass(frozen=True)
class Alternative:
    """Alternative result of a call.

    Attributes:
        result: the result as the tool would give it, with patches as references.
        cost: cost in nats, at least 0.
        what: the change in words.
    """

    result: Any
    cost: float
    what: str


@dataclass(frozen=True)
class CallContext:
    """Context for finding alternatives of a call.

    Attributes:
        session: tool session on the same media with the thresholds of the run.
        log: all calls of the run.
        desired: the desired answers to the whole query, as texts.
    """

    session: ToolSession
    log: Sequence[ToolCall]
    desired: Sequence[str] = ()


def alternatives_of(call: ToolCall, context: CallContext) -> list[Alternative]:
    """Return the plausible alternatives to a call's result, cheapest first.

    The list is empty for a failed call and for tools without known alternatives.

    Raises:
        ToolError: the tool refuses the call's own arguments.
    """
    find_alternatives = _CHANGES.get(call.tool)
    if find_alternatives is None or call.error is not None:
        return []
    alternatives = [
        Alternative(change.result, max(0.0, change.cost), change.what)
        for change in find_alternatives(_Call(call), context)
    ]
    return sorted(alternatives, key=lambda change: change.cost)


class _Call:
    """A logged call with its arguments in the form that the tool received."""

    def __init__(self, call: ToolCall) -> None:
        self.logged = call
        self.result = restore_references(call.result)

    def argument(self, place: int, name: str) -> Any:
        args, kwargs = self.logged.args, self.logged.kwargs
        return restore_references(args[place] if place < len(args) else kwargs.get(name))

    def texts(self, place: int, name: str) -> list[str]:
        return [str(text).strip() for text in self.argument(place, name)]


def _log_odds(score: float) -> float:
    bounded = min(max(score, _SURE), 1 - _SURE)
    return math.log(bounded / (1 - bounded))


def _find(call: _Call, context: CallContext) -> Iterator[Alternative]:
    session, name = context.session, str(call.argument(1, "object_name"))
    threshold = _log_odds(session.threshold("detector.threshold"))
    boxes = candidates.boxes(session, call.argument(0, "patch"), name)
    scored = [(ref, _log_odds(score)) for ref, score in boxes]
    strong = [box for box in scored if box[1] >= threshold][:MOST_BOXES]
    weaker = [box for box in scored if box[1] < threshold][:MOST_BOXES]
    result = [ref for ref, odds in scored if odds >= threshold]
    for ref, odds in weaker:
        yield Alternative([*result, ref], threshold - odds, f"'{name}' with one box more")
    for ref, odds in strong:
        fewer = [other for other in result if other is not ref]
        yield Alternative(fewer, odds - threshold, f"'{name}' with one box fewer")
        for other, weak in weaker[:3]:
            cost = odds - threshold + threshold - weak
            yield Alternative([*fewer, other], cost, f"'{name}' with another box instead")
        if ref is not result[0]:
            cost = strong[0][1] - odds
            yield Alternative([ref, *fewer], cost, f"'{name}' with another box first")
    for (box, first), (other_box, second) in itertools.combinations(strong[-3:], 2):
        fewer = [other for other in result if other is not box and other is not other_box]
        yield Alternative(fewer, first + second - 2 * threshold, f"'{name}' with two boxes fewer")
    for (box, first), (other_box, second) in itertools.combinations(weaker[:3], 2):
        cost = 2 * threshold - first - second
        yield Alternative([*result, box, other_box], cost, f"'{name}' with two boxes more")


def _exists(call: _Call, context: CallContext) -> Iterator[Alternative]:
    session, name = context.session, str(call.argument(1, "object_name"))
    threshold = _log_odds(session.threshold("detector.threshold"))
    scores = [score for _, score in candidates.boxes(session, call.argument(0, "patch"), name)]
    gaps = [_log_odds(score) - threshold for score in scores]
    if call.result:
        yield Alternative(False, sum(gap for gap in gaps if gap >= 0), f"there is no '{name}'")
    else:
        yield Alternative(True, -max(gaps, default=_log_odds(0.01)), f"there is a '{name}'")


def _verify_property(call: _Call, context: CallContext) -> Iterator[Alternative]:
    score = call.logged.scores[0] if call.logged.scores else 0.5
    threshold = context.session.threshold("matcher.threshold")
    holds, value = bool(call.result), call.argument(2, "visual_property")
    cost = abs(_log_odds(score) - _log_odds(threshold))
    yield Alternative(not holds, cost, f"it is {'not ' if holds else ''}{value}")


def _choices(
    options: Sequence[str], choice: Any, scores: Sequence[float] | None, name: str
) -> Iterator[Alternative]:
    """Yield every other option. Its cost is the log-likelihood that it loses to the chosen one."""
    best = None if scores is None else scores[options.index(choice)] if choice in options else None
    for place, option in enumerate(options):
        if option != choice:
            cost = UNSCORED if scores is None or best is None else best - scores[place]
            yield Alternative(option, cost, f"{name} gives '{option}' instead of '{choice}'")


def _best_text_match(call: _Call, context: CallContext) -> Iterator[Alternative]:
    options = call.texts(1, "option_list")
    scores = candidates.text_fits(context.session, call.argument(0, "patch"), options)
    yield from _choices(options, call.result, scores, "the best match")


def _best_description(call: _Call, context: CallContext) -> Iterator[Alternative]:
    options = call.texts(2, "options")
    texts = [f"{option} {call.argument(1, 'object_name')}" for option in options]
    scores = candidates.text_fits(context.session, call.argument(0, "patch"), texts)
    yield from _choices(options, call.result, scores, "the best description")


def _best_image_match(call: _Call, context: CallContext) -> Iterator[Alternative]:
    patches, content = call.argument(0, "list_patches"), call.argument(1, "content")
    texts = [content] if isinstance(content, str) else [str(text) for text in content]
    scores = candidates.patch_fits(context.session, patches, texts)
    best = int(call.result)
    for place, score in enumerate(scores):
        if place != best:
            yield Alternative(place, scores[best] - score, f"patch {place} fits best, not {best}")


def _simple_query(call: _Call, context: CallContext) -> Iterator[Alternative]:
    patch, question = call.argument(0, "patch"), call.argument(1, "question")
    if getattr(patch, "kind", "") in ("segment", "video"):
        yield from _caption_video(call, context)
        return
    families = context.session.toolbox.settings.attribute_families
    answer = str(call.result)
    results = (other.result for other in context.log if other.tool == "simple_query")
    given = [result for result in results if isinstance(result, str)]
    words = [*context.desired, *itertools.chain(*families), *given]
    answers = [answer, *(word for word in dict.fromkeys(words) if word and word != answer)]
    text = "what is this?" if question is None else str(question).strip()
    scores = candidates.answer_likelihoods(context.session, patch, text, answers)
    ranked = sorted(_choices(answers, answer, scores, "the answer"), key=lambda option: option.cost)
    yield from ranked[: MOST_ANSWERS if scores is not None else None]


def _compute_depth(call: _Call, context: CallContext) -> Iterator[Alternative]:
    own = float(call.result)
    depths = [other.result for other in context.log if other.tool == call.logged.tool]
    for depth in dict.fromkeys(float(depth) for depth in depths if isinstance(depth, int | float)):
        if depth == own or own <= 0 or depth <= 0:
            continue
        apart = math.log(depth / own)
        beyond = depth * (1 + math.copysign(1e-4, apart))
        what = f"it is {'farther' if apart > 0 else 'nearer'} than the patch at {depth}"
        yield Alternative(beyond, abs(apart) / DEPTH_ERROR, what)


def _locate_event(call: _Call, context: CallContext) -> Iterator[Alternative]:
    session, event = context.session, str(call.argument(1, "event"))
    threshold = _log_odds(session.threshold("video.threshold"))
    start, end = call.result
    windows = tool_functions.windows(session, call.argument(0, "segment"), event)
    best = max((_log_odds(window.score) for window in windows), default=threshold)
    for window in windows:
        odds = _log_odds(window.score)
        if [window.start, window.end] == [start, end]:
            yield Alternative([start, start], odds - threshold, f"'{event}' is not there")
        else:
            what = f"'{event}' is in frames {window.start} to {window.end}"
            cost = (best if start < end else threshold) - odds
            yield Alternative([window.start, window.end], cost, what)


def _caption_video(call: _Call, context: CallContext) -> Iterator[Alternative]:
    for text in context.desired:
        if text and text not in str(call.result):
            yield Alternative(f"{text}.", UNSCORED, f"what happens is '{text}'")


def _llm_query(call: _Call, context: CallContext) -> Iterator[Alternative]:
    for text in context.desired:
        if text != call.result:
            yield Alternative(text, UNSCORED, f"the language model says '{text}'")


def _select_answer(call: _Call, context: CallContext) -> Iterator[Alternative]:
    info, question = call.argument(0, "info"), str(call.argument(1, "question"))
    if call.argument(2, "options"):
        options = call.texts(2, "options")
        scores = candidates.option_likelihoods(context.session, info, question, options)
        for change in _choices(options, call.result, scores, "the choice"):
            # This option is likelier than the chosen one, so likelihood did not decide.
            yield change if change.cost >= 0 else replace(change, cost=UNSCORED)


def _process_guesses(call: _Call, context: CallContext) -> Iterator[Alternative]:
    guesses = list(dict.fromkeys(call.texts(1, "guesses")))
    yield from _choices(guesses, call.result, None, "the common answer")


_CHANGES: Mapping[str, Callable[[_Call, CallContext], Iterator[Alternative]]] = {
    "find": _find,
    "exists": _exists,
    "verify_property": _verify_property,
    "best_text_match": _best_text_match,
    "best_description_from_options": _best_description,
    "best_image_match": _best_image_match,
    "simple_query": _simple_query,
    "compute_depth": _compute_depth,
    "locate_event": _locate_event,
    "caption_video": _caption_video,
    "llm_query": _llm_query,
    "select_answer": _select_answer,
    "process_guesses": _process_guesses,
}

# Tools with known alternatives.
WITH_ALTERNATIVES = frozenset(_CHANGES)
