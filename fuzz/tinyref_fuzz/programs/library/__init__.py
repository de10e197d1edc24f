"""Fuzz a library such as PyTorch with tensor programs that have no side effects.

`generator.py` draws them. `oracle.py` evaluates them: exactly if nothing rounds, else with derived
bounds (`functions.py`). `spelling.py` prints them as calls of a library. `judge.py` runs them,
compares the results, and decides whether the library's compiler or an op is wrong. `script.py`
writes a finding for the library's maintainers.
"""
