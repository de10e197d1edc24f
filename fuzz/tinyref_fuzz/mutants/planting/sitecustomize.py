"""Imported by Python as it starts, where this folder is on the path: see `plant_in_children`."""

import os

if name := os.environ.get("MUTANT_OF_TINYREF"):
    from tinyref_fuzz.mutants.planting import plant

    plant(name)
