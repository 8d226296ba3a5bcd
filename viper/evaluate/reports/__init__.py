"""Reports of runs: figures, tables, pages with plots, comparisons."""
