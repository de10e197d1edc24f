"""The semantics of nodes, and the rules by which they are equal.

In: expressions of the IR. Out: equal expressions that cost less, the ranges of their values, and
values on numpy arrays.

`op_rows.py` declares each op once (arity, typing, semantics, range, clause), and `semantics.py`
computes its values. `named_rules.py` defines rules, `rewrite.py` is the engine, and `rules/` has
the equations that `simplify.py` applies to a fixed point. `bounds.py` has value ranges, `linear.py`
sums of products with constant factors, and `symbolic.py` sizes that are expressions of variables.
`sizes.py` has the operators of sizes and their constraints on variables, `shapes.py` the shapes of
nodes, and `evaluate.py` the values of expressions.
"""

# An import of any part of the algebra registers the rows and the operators of sizes.
from tinyref.algebra import op_rows as op_rows
from tinyref.algebra import sizes as sizes
