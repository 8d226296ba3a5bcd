"""Matching of pictures and texts by a chat vision-language model that answers yes or no."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from viper.errors import ToolError
from viper.models.vision.roles import Floats, Pixels
from viper.models.vision.vlm import ChatRequest, RoleOnVLM, VisionLanguageModel, as_shown

QUESTION = "Does the picture show this: {text}? Answer yes or no."


class VlmMatcher(RoleOnVLM):
    """A ``LikelihoodMatcher`` on any chat vision-language model.

    Args:
        vlm: the model; may be shared with other roles.
        question: asked about each pair; ``{text}`` stands for the text.
        batch_size: maximum number of pairs in one forward pass.
    """

    by_likelihood = True
    logit_scale = 1.0

    def __init__(
        self, vlm: VisionLanguageModel, *, question: str = QUESTION, batch_size: int = 8
    ) -> None:
        super().__init__(vlm, batch_size)
        self._question = question

    def likelihood(self, images: Sequence[Pixels], texts: Sequence[str]) -> Floats:
        """Return the probability ``[N, M]`` that each text describes each picture.

        Raises:
            ToolError: the model answered neither yes nor no.
        """
        shown = (as_shown(self._vlm.max_pixels, image) for image in images)  # once for all texts
        requests = [
            ChatRequest([image], self._question.replace("{text}", text.strip().rstrip(".")))
            for image in shown
            for text in texts
        ]
        chances = self._vlm.probability_of_yes(requests)
        return np.array(chances, np.float32).reshape(len(images), len(texts))

    def encode_images(self, images: Sequence[Any]) -> Floats:
        """Raise ToolError, because the model has no embeddings."""
        raise ToolError(
            f"{self.model_id} matches pictures and texts by yes or no and has no embeddings; "
            "indexes of pictures and learned concepts need a matcher such as open_clip"
        )

    encode_texts = encode_images
