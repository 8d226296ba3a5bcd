"""viper as a model of lmms-eval: each question is answered by a program.

``lmms-eval --model viper --model_args profile=embedded,workers=4 --tasks gqa``

Source: lmms-eval 0.7, ``lmms_eval.api.model.lmms`` and the entry points ``lmms_eval.models``.
Differs: tasks by likelihood are refused, since a program has none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lmms_eval.api.instance import Instance
from lmms_eval.api.model import lmms
from lmms_eval.models.registry_v2 import ModelManifest

from viper.errors import UsageError, ViperError
from viper.profiles import load_profile
from viper.reasoner import Reasoner

MANIFEST = ModelManifest("viper", simple_class_path="viper.bridges.lmms_eval.Viper")

# "A. a dog", "(B) two", as the tasks of lmms-eval write options.
_OPTION = re.compile(r"\s*\(?([A-Z])[.):]\s+(.+)")
_INSTRUCTION = re.compile(
    r"(answer (the question|with)|please answer|respond with|choose (one|the)|select the)\b", re.I
)


class Viper(lmms):
    """Model that answers by programs.

    Args:
        profile: name or file of a profile.
        workers: number of questions at the same time.
        settings: settings of a run, such as ``trials=2`` or ``strategy=plan``.
    """

    is_simple = True

    def __init__(
        self,
        profile: str = "embedded",
        workers: int | str = 2,
        batch_size: int | str = 1,
        device: str | None = None,
        **settings: Any,
    ) -> None:
        super().__init__()
        self._reasoner = Reasoner(load_profile(profile))
        self._workers, self._settings = int(workers), settings

    def generate_until(self, requests: Sequence[Instance]) -> list[str]:
        """Return the answer to each request; "" where there is none."""
        with ThreadPoolExecutor(self._workers) as pool:
            return list(pool.map(self._answer, requests))

    def generate_until_multi_round(self, requests: Sequence[Instance]) -> list[str]:
        """Refuse tasks in several rounds."""
        raise UsageError("viper answers questions of one round; choose another task")

    def loglikelihood(self, requests: Sequence[Instance]) -> list[tuple[float, bool]]:
        """Refuse tasks by likelihood."""
        raise UsageError("a program has no likelihood; choose a task of type generate_until")

    def clean(self) -> None:
        """End the processes of the sandbox."""
        self._reasoner.close()
        super().clean()

    def _answer(self, request: Instance) -> str:
        context, _, visuals_of, index, task, split = request.args
        media = visuals_of(self.task_dict[task][split][index])
        question, options = parsed(context)
        try:
            result = self._reasoner.run(
                media[0] if len(media) == 1 else media,
                question,
                options=tuple(options.values()),
                task="choice" if options else "auto",
                **self._settings,
            )
        except ViperError:  # one sample that cannot be read must not end a run
            return ""
        answer = result.answer
        if answer is None:
            return ""
        if options and answer.choice_index is not None:
            return list(options)[answer.choice_index]
        return "" if answer.value is None else str(answer.value)


def parsed(context: str) -> tuple[str, dict[str, str]]:
    """Return the question of a prompt, and its options by letter.

    Lines that only tell a chat model how to reply are left out.
    """
    lines, options = [], {}
    for line in context.replace("<image>", "").splitlines():
        option = _OPTION.fullmatch(line)
        if option:
            options[option[1]] = option[2].strip()
        elif line.strip() and not _INSTRUCTION.match(line.strip()):
            lines.append(line.strip())
    if len(options) < 2:
        return " ".join([*lines, *options.values()]), {}
    return " ".join(lines), options
