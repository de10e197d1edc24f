"""`python -m tinyref` is the command `tinyref`."""

from tinyref.cli import main

main()
