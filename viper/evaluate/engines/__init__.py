"""Engines that answer samples, with threads or with actors of Ray, and their driver."""
