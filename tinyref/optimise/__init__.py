"""How the iteration space of a kernel is cut, ordered and executed.

In: a kernel AST and what the device can do. Out: its normal form, in which every axis belongs to
the outputs or to one group of reduces, and a `Plan`: which axes are launch indices, loops,
work-items and lanes.

`normal_form.py` simplifies the AST, `plan.py` is the plan, `opt.py` one optimisation of it,
`moves.py` applies one, `heuristics_loops.py` and `heuristics_groups.py` choose some, `choices.py`
asks them and lists all for a search. `one_hot.py` finds reduces that only choose one position, and
`fold_ranges.py` makes each a gated load.
"""
