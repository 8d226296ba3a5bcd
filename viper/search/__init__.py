"""Knowledge from outside a picture: pictures that are like it, texts about what it shows."""
