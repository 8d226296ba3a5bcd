"""A detector that finds both halves of every picture, and a language model that names things."""

from viper.models.llm.protocol import Completion
from viper.models.vision.roles import Detection


class Everything:
    def __init__(self, source):
        self.model_id = f"everything:{source}"

    def encode(self, images):
        return [image.shape for image in images]

    def detect(self, encoding, phrases):
        height, width = encoding[:2]
        left = Detection((0.0, 0.0, width / 2, float(height)), 0.9)
        right = Detection((width / 2, 0.0, float(width), float(height)), 0.8)
        return [[left, right] for _ in phrases]


class Namer:
    """Names the last word of the prompt."""

    max_context = 1_000

    def __init__(self, source):
        self.model_id = f"namer:{source}"

    def generate(self, prompts, sampling):
        return [[Completion(prompt.split()[-1], len(prompt.split()), 1)] for prompt in prompts]

    def count_tokens(self, text):
        return len(text.split())
