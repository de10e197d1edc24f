"""How the iteration space of a kernel is cut, ordered and executed.

In: a kernel AST and what the device can do. Out: its normal form, in which every axis belongs to
the outputs or to one group of reduces, and a `Plan`: which axes are launch indices, loops,
work-items and lanes.

`normal_form.py` and the modules that it calls simplify the AST, `plan.py` is the plan, `opt.py` one
optimisation of it, `moves.py` applies one, `heuristics*.py` choose some, `actions.py` lists all for
a search, `one_hot.py` makes a reduce that only chooses one position into a gated load.
"""
