"""The IR and nothing else: every dialect is made of the nodes of this room.

In: ops, dtypes, typed payloads. Out: `UOp`, frozen and hash-consed, so that equal nodes are one
object; builders of nodes; `Program`, a kernel as a list of nodes in a legal order.

`ops.py` names the operations, `payload.py` what a node carries besides sources, `node.py` is the
node with its cached facts, `build.py` makes common nodes, `order.py` orders nodes independently of
when they were built, `tiles/` says which lane holds which element of a matrix tile.
"""
