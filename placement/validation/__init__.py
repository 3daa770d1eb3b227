"""
Predictions held against published measurements, row by row.

Every prediction goes through the functions that planning uses (`placement.memory.gpu_memory`, `placement.timing.stages`,
`topologies.links` …); this package only says which choice, card and batch a published row stands for.

When to modify: a new group of measurements is one module here, and one line in `placement.validation.report`.
"""
