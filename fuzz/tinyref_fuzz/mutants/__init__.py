"""Compiler mutants: small edits, each like a bug that real compilers had, to score the fuzzer by.

In: the catalogue, whose modules have the edits of one part of the compiler each. Out: a `Score`:
which are found, how fast, and whether the right part is blamed.

`mechanical.py` makes other mutants by machine, of which `mechanical_score.py` sends a sample
through the lanes of `lanes.py`; `mechanical_summary.py` has the rates and the page.

Nothing here is imported by a normal run. A mutant is switched on by name, before the compiler is
imported, in a process of its own (`trial.py`): see `mutant.switch_on`. `score.py` runs them all.
"""
