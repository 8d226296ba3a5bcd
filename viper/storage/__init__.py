"""Keep data on disk: whole files, JSON lines, SQLite files, and stores of whole versions."""
