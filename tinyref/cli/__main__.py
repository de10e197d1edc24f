"""`python -m tinyref.cli` is the command `tinyref`."""

from tinyref.cli import main

main()
