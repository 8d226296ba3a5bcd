"""A server in a process of its own: ``python -m tests.serve.child_server``."""

from __future__ import annotations

from tests.serve.bench import Writer
from tests.strategies.bench import Bench
from viper.serve.app import create_app
from viper.serve.service import serve
from viper.serve.settings import ServeSettings

if __name__ == "__main__":
    with Bench(Writer()) as bench:  # type: ignore[arg-type]
        app = create_app(bench.reasoner, ServeSettings(port=0))
        serve(app, app.state.service)
