"""Maps from the positions of a shape to elements of memory; no element moves.

In: shapes and movements (reshape, permute, expand, pad, shrink, flip). Out: a `ShapeTracker`, which
is a short stack of `View`s. It gives the index expression of an element, and the condition under
which memory has this element.

`view.py` has one view (shape, strides, offset, mask), `composition.py` merges two views into one,
and `shape_tracker.py` has the stack and reads it from nodes.
"""
