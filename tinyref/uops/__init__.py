"""The IR and nothing else: every dialect is made of the nodes of this room.

In: ops, dtypes, typed payloads. Out: the node `UOp`, builders of nodes, and `Program`. A `UOp` is
frozen and hash-consed, so equal nodes are one object. A `Program` is a kernel as a list of nodes in
a legal order.

`ops.py` names the operations. `payload.py` has the payloads. `node.py` has the node, its cached
facts and the total order of nodes. `build.py` makes common nodes. `tiles.py` maps lanes to elements
of a matrix tile. `program.py` has the kernel that is ready to run, and how memory holds the types
that a device lacks.
"""
