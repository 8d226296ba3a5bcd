"""Grey pictures in which something is to be found."""

import numpy as np

from viper.ace.mine import Labelled
from viper.schema import Query


def grey(split, seed, limit):
    return [
        Labelled(
            query=Query("the cup on the very right", "ground", "image", (), f"{split}-{number}"),
            media=lambda: np.full((40, 80, 3), 128, np.uint8),
            score=lambda result: float(result.answer is not None and result.answer.box[0] >= 40),
            kind="right",
        )
        for number in range(limit)
    ]
