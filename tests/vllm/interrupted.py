"""Asks the engine for long texts until Ctrl-C, then for a short one; test_in_process.py runs it."""

import threading
import time
from pathlib import Path

from viper.models.llm.protocol import Sampling
from viper.models.llm.vllm_llm import VllmLLM

WRITER = Path(__file__).parents[2] / "viper" / "embedded" / "weights" / "writer_small"
ENDLESS = Sampling(temperature=2.0, max_tokens=1900)
WAIT_S = 60.0


def main() -> None:
    """Say on stdout what happens, a line for each event."""
    llm = VllmLLM(WRITER, template="plain", dtype="float32", enforce_eager=True)
    running = llm._engine.get_num_unfinished_requests

    def say_when_running() -> None:
        while running() < 8:
            time.sleep(0.01)
        print("writing", flush=True)

    threading.Thread(target=say_when_running, daemon=True).start()
    try:
        llm.generate([f"cube {number}" for number in range(8)], ENDLESS)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    until = time.monotonic() + WAIT_S
    while running() and time.monotonic() < until:
        time.sleep(0.01)
    print(f"{running()} running", flush=True)
    print(llm.generate(["cube"], Sampling(max_tokens=4))[0][0].completion_tokens, flush=True)


if __name__ == "__main__":
    main()
