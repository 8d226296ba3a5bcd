"""Recipes that train the embedded models on rendered scenes, one module a role."""
