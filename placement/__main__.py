"""``python -m placement`` is the command ``placement``."""

from placement.cli import main

main()
