"""Which stage of the compiler is to blame, and inside of it which pass, rule or optimisation.

In: a reduced `Case` and its `Verdict`. Out: a `Blame`.

`stages.py` says what is wrong in a compile. `find.py` bisects its optional steps: the step at which
the result changes is to blame, a rule by what `rules.py` computes of its sides. Where no step is
needed, `find.py` tells the mandatory stages apart.
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
