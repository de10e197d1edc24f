"""The methods of Tensor, a class each, in a chain: each uses only the classes below it.

From the bottom up: elementwise, rounding, movement, reduction, mathematics, functions, contraction,
indexing, operators, creation, data, assignment, lookup, advanced, scans, sorting, selection,
shaping, pooling, windows, random, losses, sharding, saving. `display.py` prints elements,
`approximations.py` has polynomials, `image_layout.py` lays out operands of products as images,
`data_devices.py` writes to devices that only hold data.
"""
