"""Prove every rule and write the record: `python -m tinyref_spec.proofs`."""

from __future__ import annotations

import sys

from tinyref_spec.proofs import record

if __name__ == "__main__":
    for name, count in record.write().items():
        sys.stdout.write(f"{name:18} {count:4}\n")
