"""Between which two of evaluator, interpreter, device and equivalent kernel a case differs.

In: a `Case` and a device. Out: a `Verdict`.

`judge.py` is the judge of a device, `judged_device.py` what that declares; `trial.py` compares the
values of one case, `runs.py` has the single steps, `guard.py` the guarded memory, `lacks.py` what a
device may refuse, `oracles/` the accepted values.
"""
