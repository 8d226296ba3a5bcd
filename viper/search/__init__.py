"""Search for knowledge: similar pictures, and texts about what a picture shows."""
