"""What runs came to: figures, tables, pages with plots, comparisons."""
