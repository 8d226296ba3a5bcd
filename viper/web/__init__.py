"""Web pages: traces, the viewer of runs, the demo."""
