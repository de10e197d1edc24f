"""Which stage of the compiler is to blame, and inside of it which pass, rule or optimisation.

In: a reduced `Case` and its `Verdict`. Out: a `Blame`.

`find.py` goes through a compile; `stages.py` computes the value after each of its stages, by
`graph.py`, which evaluates indexed kernels, and `order.py`, which puts nodes into an order of its
own; `scalar.py` runs programs by the references of the spec. Inside of a stage `passes.py`,
`plans.py`, `firings.py` and `rules.py` look for the pass, the optimisation and the rule;
`samples.py` has the values of a node at sampled positions.
"""

# In the order of the pipeline. `semantics` is what an op means, which all values share; `evaluate`
# is the evaluator itself, and `interpret` the interpreter; `simplify` has the rules, wherever they
# fire; `optimise` is what legal plans and heuristics do.
STAGES = (
    *("semantics", "evaluate", "normal", "optimise", "lower", "simplify", "expand", "accumulate"),
    *("decompose", "narrow", "linearise", "interpret", "device"),
)
