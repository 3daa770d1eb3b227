"""
The inverse question: on how few GPUs, or on how small a card, does the job fit at all?

Candidates are tried from the smallest up, each to a proof: that one does not fit is said by the solver, and that fewer GPUs are never
enough where more are not is not taken for granted (rule ``min_gpus`` is a wish below six GPUs). `trial` asks, `fewest` and `cards` say
what is asked, `menus` whether the workload's menus are what leaves no room.

When to modify: another measure of size; it gets a module of its own.
"""
