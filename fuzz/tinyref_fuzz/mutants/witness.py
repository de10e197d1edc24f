"""The former name of `python -m tinyref_fuzz.mutants.reproducer`."""

import sys

from tinyref_fuzz.mutants.reproducer import main

if __name__ == "__main__":
    sys.exit(main())
