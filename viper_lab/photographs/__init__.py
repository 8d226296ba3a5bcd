"""``viper lab reproduce photographs``: measured on photographs, receipts and blood smears."""
