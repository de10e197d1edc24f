"""Judge a case: compare evaluator, interpreter, device and equivalent kernel.

The input is a `KernelCase` and a device; the output is a `KernelVerdict`, which names the two that
differ.

`judge.py` is the judge of a device, and `judged_device.py` what the device declares. `trial.py`
compares the values of one case, `runs.py` has the single steps, and `guard.py` the guarded memory.
`lacks.py` says what a device may refuse, and `oracles/` which values are accepted.
"""
