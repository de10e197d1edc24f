"""Which stage of the compiler is to blame, and inside of it which pass, rule or optimisation."""

# In the order of the pipeline. `evaluate` is the evaluator itself, or what all values share;
# `simplify` has the rules, wherever they fire; `optimise` is what legal plans and heuristics do.
STAGES = (
    *("evaluate", "normal", "optimise", "lower", "simplify", "expand", "accumulate"),
    *("decompose", "narrow", "linearize", "device"),
)
