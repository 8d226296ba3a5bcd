"""Strategy ``explore``: an agent that acts turn by turn and sees what each turn gave (DWIM)."""
