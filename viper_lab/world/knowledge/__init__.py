"""The knowledge world: objects with names and makers, pictures of them, texts about them."""
