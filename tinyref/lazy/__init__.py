"""The tensor graph: builders, shapes, movement, constant folding, copies."""
