"""Which stage of the compiler is to blame, and inside of it which pass, rule or optimisation.

In: a reduced `Case` and its `Verdict`. Out: a `Blame`.

`stages.py` computes the value after each stage of a compile; `graph.py` evaluates indexed kernels
for it. `find.py` takes the first wrong stage and bisects the optional steps of the compile: the
step at which the value of the stage changes is to blame.
"""

# In the order of the pipeline. `semantics` is what an op means, which all values share; `evaluate`
# is the evaluator itself, and `interpret` the interpreter; `simplify` has the rules, wherever they
# fire; `optimise` is what legal plans and heuristics do.
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
