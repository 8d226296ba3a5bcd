"""Learning from evaluated samples: examples, concepts, demonstrations, workflows."""
