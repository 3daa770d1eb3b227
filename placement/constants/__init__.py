"""Every constant of the cost model, and the files that override them."""
