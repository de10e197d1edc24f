"""How the positions of a shape map to elements of memory, without moving any.

In: shapes and movements (reshape, permute, expand, pad, shrink, flip). Out: a `ShapeTracker`, the
shortest stack of `View`s that is found, and the index expression of an element with the condition
under which memory has it.

`view.py` is one view (shape, strides, offset, mask), `composition.py` joins two, `shape_tracker.py`
is the stack, and reads it from nodes.
"""
