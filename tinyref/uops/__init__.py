"""The IR and nothing else: every dialect is made of the nodes of this room.

In: ops, dtypes, typed payloads. Out: `UOp`, frozen and hash-consed, so that equal nodes are one
object; builders of nodes; `Program`, a kernel as a list of nodes in a legal order.

`ops.py` names the operations, `payload.py` what a node carries besides sources, `node.py` is the
node with its cached facts and the total order of nodes, `build.py` makes common nodes, `tiles.py`
says which lane holds which element of a matrix tile, `program.py` is a kernel that is ready to run,
and how memory holds the types that a device lacks.
"""
