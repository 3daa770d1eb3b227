"""The constraint program: which sets and choices there are, the problem stated in numbers, its solution and its clashes in words."""
