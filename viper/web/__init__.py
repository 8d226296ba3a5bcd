"""What a browser shows: a trace as a page."""
