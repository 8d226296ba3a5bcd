"""Bridges to other tools: one module for each, imported only where that tool asks for it."""
