"""What nodes mean and which of them are equal.

In: expressions of the IR. Out: equal expressions that cost less, the ranges of their values, and
values on numpy arrays.

`op_rows.py` declares each op once (arity, typing, semantics, range, clause), `semantics.py` has
its values. `named_rules.py` says what a rule is, `rewrite.py` is the engine, and `rules/` has the
equations that `simplify.py` applies to a fixed point. `bounds.py` has value ranges, `linear.py`
sums of products with constant factors, `symbolic.py` sizes that are expressions of variables,
`sizes.py` their operators and what they ask of variables, `shapes.py` the shapes of nodes, and
`evaluate.py` the values of expressions.
"""

# The rows, and what operators of sizes do, are declared as soon as any of the algebra is there.
from tinyref.algebra import op_rows as op_rows
from tinyref.algebra import sizes as sizes
