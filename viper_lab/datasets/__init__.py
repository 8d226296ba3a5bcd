"""The embedded world as data sets."""
