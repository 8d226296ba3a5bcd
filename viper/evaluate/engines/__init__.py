"""How samples are answered: by threads here, or by actors of Ray; and what drives them."""
