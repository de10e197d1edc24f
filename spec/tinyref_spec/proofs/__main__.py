"""`python -m tinyref_spec.proofs`: proves every rule and writes the record."""

from __future__ import annotations

import sys

from tinyref_spec.proofs import record


def main() -> None:
    """Proves, writes and prints the counts."""
    found = record.prove_all()
    record.write(found)
    for name, count in record.counts(found.values()).items():
        sys.stdout.write(f"{name:18} {count:4}\n")


if __name__ == "__main__":
    main()
