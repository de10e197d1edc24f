"""Blame a stage of the compiler, and in it a pass, rule or optimisation.

The input is a reduced `KernelCase` and its `KernelVerdict`; the output is a `Blame`.

`stages.py` finds the wrong results of a compile. `find.py` bisects its optional steps and blames
the step at which the result changes; `rules.py` computes both sides of a rule. If no step is
needed, `find.py` tells the mandatory stages apart.
"""

# In the order of the pipeline. `semantics` is the meaning of an op, which all values share.
# `evaluate` is the evaluator, and `interpret` the interpreter. `simplify` has the rules, wherever
# they fire; `optimise` has the legal plans and the heuristics.
STAGES = (
    "semantics",
    "evaluate",
    "normal",
    "optimise",
    "lower",
    "simplify",
    "expand",
    "accumulate",
    "decompose",
    "narrow",
    "linearise",
    "interpret",
    "device",
)
