"""Storage on disk: whole files, JSON lines, SQLite files and versioned stores."""
