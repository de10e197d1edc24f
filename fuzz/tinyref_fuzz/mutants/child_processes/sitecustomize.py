"""Imported by Python as it starts, from this folder: see `switch_on_in_children`."""

import os

if name := os.environ.get("MUTANT_OF_TINYREF"):
    from tinyref_fuzz.mutants.child_processes import switch_on_named

    switch_on_named(name)
