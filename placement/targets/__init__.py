"""
What a map becomes: the files from which a framework or a launcher starts.

`target` says what a target is, `start` what files are written from, `catalog` which targets there are; each target is a module of its own.
"""
