"""Tensor programs without side effects, for a library such as PyTorch instead of a device.

`generator.py` draws them. `oracle.py` evaluates them: exactly where nothing rounds, with derived
bounds elsewhere (`functions.py`). `spelling.py` prints them in the words of a library. `judge.py`
runs and compares them, and says whether the library's compiler or an op is wrong. `script.py`
writes a finding for the library's maintainers.
"""
