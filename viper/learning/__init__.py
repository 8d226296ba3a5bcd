"""What is learned from evaluated samples: examples, concepts, demonstrations, workflows."""
