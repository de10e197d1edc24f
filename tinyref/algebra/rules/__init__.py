"""The simplification rules, one file per family; see each file for what its rules keep."""
