"""The sandbox by itself: programs nobody reviewed, two tools, nothing visual.

python examples/sandbox_two_tools.py
"""

from __future__ import annotations

from typing import Any

from viper.errors import ToolError
from viper.sandbox import Limits, Prelude, Sandbox, describe_failure

PRICES = {"apple": 0.4, "bread": 2.1, "cheese": 6.5}


class Shop:
    """Answers the calls of programs, in this process; arguments are whatever they sent."""

    def call(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], line: int | None
    ) -> Any:
        if name == "search":
            return sorted(PRICES)
        if name == "price" and len(args) == 1 and isinstance(args[0], str) and not kwargs:
            if args[0] not in PRICES:
                raise ToolError(f"no such article: {args[0]!r}")
            return PRICES[args[0]]
        raise ToolError(f"{name} takes one text")


PROGRAMS = {
    "a good one": "answer = min(search(), key=price)",
    "a mistaken one": "total = 0\nfor name in ['apple', 'milk']:\n    total += price(name)\n",
    "a hostile one": "import os\nanswer = os.environ",
    "an endless one": "n = 0\nwhile True:\n    n += 1",
}


def main() -> None:
    """Runs each program in a locked process of its own and prints what came of it."""
    tools = Prelude.functions("search", "price")
    with Sandbox(Shop(), Limits(time_s=1.0), tools) as sandbox:
        for title, program in PROGRAMS.items():
            outcome = sandbox.run(program)
            print(f"{title}: {outcome.value if outcome.ok else describe_failure(outcome.failure)}")
        with sandbox.session() as session:
            session.run("basket = search()[:2]")
            outcome = session.run("answer = round(sum(price(name) for name in basket), 2)")
            print(f"two turns that share variables: {outcome.value}, {len(outcome.calls)} calls")


if __name__ == "__main__":
    main()
