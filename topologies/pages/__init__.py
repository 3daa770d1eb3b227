"""Texts as pages: decoded, plain, bounded; what readers find on them."""
