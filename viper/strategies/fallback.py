"""What answers when every trial failed; off unless ``RunSettings.fallback`` asks for it.

``vipergpt`` is what ViperGPT's published code does, so that its scores can be told apart from
those of programs alone: a trace says in ``fallback`` which one answered.

Source: Stanić et al. 2024, sec. 3, "Baselines", on ViperGPT's repository
(github.com/cvlab-columbia/viper, ``datasets/refcoco.py``, ``prompts/fixed_code/``). There a
grounding without a box is scored as the constant box (50.9, 39.1, 493.5, 356.5), in pixels with y
up, whatever the picture; a failed program about a picture is replaced by a question to BLIP-2, one
about a video by a question about its middle frame.

Differs: the box is that one as fractions of a picture of 640 x 480, or the profile's own, since
pixels mean nothing on pictures of another size; ViperGPT's fixed program for RefCOCO, which first
takes the detector's best box for the whole query, is the strategy ``detector`` instead; options
are not written into the question, and an answer that is none of them is matched to them by the
text model, not by word vectors.
"""

from __future__ import annotations

from functools import partial

from viper.sandbox import Ref
from viper.schema import Query, Trial
from viper.strategies.base import Components, RunContext
from viper.strategies.end_to_end import Ask, ask_vqa, one_trial
from viper.tools.session import HubSession


def fall_back(components: Components, context: RunContext, index: int) -> Trial | None:
    """The fallback's trial, ``context.fallback`` set where it answers; None where there is none.

    Groundings in one picture have the average box; questions and choices about one picture or
    a video the VQA model.
    """
    chosen = _chosen(context)
    if chosen is None:
        return None
    name, ask = chosen
    trial = one_trial(components, context, ask, index, correction="fallback")
    if trial.ok:
        context.fallback = name
    return trial


def _chosen(context: RunContext) -> tuple[str, Ask] | None:
    query = context.query
    if context.settings.fallback == "none" or query.media == "images":
        return None
    if query.task == "ground" and query.media == "image":
        return "average_box", partial(_average_box, fractions=context.settings.average_box)
    if query.task in ("question", "choice"):
        return "vqa", partial(ask_vqa, frames=1)
    return None


def _average_box(session: HubSession, query: Query, fractions: tuple[float, ...]) -> Ref:
    height, width = session.media.images[0].shape[:2]
    x0, y0, x1, y1 = fractions
    return session.patch_ref("image0", (x0 * width, y0 * height, x1 * width, y1 * height))
