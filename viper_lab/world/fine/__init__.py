"""``world-fine``: pictures of 1,024 x 768 pixels that a whole-picture tool cannot read.

Small letters among clutter, turned signs, low contrast, many small dots, two pictures that differ
in one place, lines to follow and gauges to read. Each query needs a closer look or a measurement.
"""
