"""Between which two of evaluator, interpreter, device and equivalent kernel a case differs.

In: a `Case` and a device. Out: a `Verdict`.

`judge.py` is the judge of a device, `judged_device.py` what that declares; `trial.py` compares the
values of one case, `runs.py` has the single steps, `guard.py` the guarded memory, `limits.py` what
a program may take of the device, `cost.py` what an equivalent kernel may cost, `waste.py` what no
kernel does for nothing, `oracles/` the exact results where rounding makes two right ones,
`expressions/` what is made of expressions without a program.
"""
