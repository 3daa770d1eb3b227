"""Many hosts as one machine, and what joins them."""
