"""``viper demo``: ask about a picture or a clip in the browser; see docs/viewing.md."""
