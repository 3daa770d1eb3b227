"""
Why a plan is as it is: one question, one module.

`taken` says what was chosen and how two choices differ, `quantities` what the choice may rest on, `sensitivity` which of those turn it,
`turns` what is known of a turn, `giving` how a number of one's own takes the place of one of those.

When to modify: another question is asked about a plan; it gets a module of its own.
"""
