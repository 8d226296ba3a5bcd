"""Grey pictures in which something is to be found."""

import numpy as np

from viper.data.sample import Finding, Sample


def picture():
    return np.full((40, 80, 3), 128, np.uint8)


class Grey:
    name = "grey"
    splits = ("val",)
    metric = "grounding"
    summary = "grey pictures, the answer on the right"

    def samples(self, spec):
        return [
            Sample(
                sample_id=f"val-{number}",
                text="the cup on the very right",
                task="ground",
                media="image",
                target=(40, 0, 80, 40),
                load=picture,
                groups={"kind": "right"},
            )
            for number in range(10)
        ]

    def check(self, spec):
        return [Finding(True, "val", "needs no files")]
