"""Choose how the iteration space of a kernel is split, ordered and executed.

In: a kernel AST and the capabilities of the device. Out: its normal form and a `Plan`. In the
normal form, every axis belongs to the outputs or to one group of reduces. The plan says which axes
are launch indices, loops, work-items and lanes.

`normal_form.py` simplifies the AST. `plan.py` has the plan, `opt.py` one optimisation, and
`moves.py` applies it. `heuristics_loops.py` and `heuristics_groups.py` choose optimisations;
`choices.py` calls them and lists all candidates for a search. `one_hot.py` detects reduces that
select one position, and `fold_ranges.py` turns these into gated loads.
"""
