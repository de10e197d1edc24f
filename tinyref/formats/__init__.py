"""Graphs of any dialect as text and as JSON, both of which read back to the same nodes.

In: nodes. Out: text for people, JSON with a schema version for corpora and bug reports, and the
reverse; what comes from outside is checked before a node is built.

`payload_fields.py` declares the members of each payload for both; `text.py` prints what the flag
DUMP asks for, too.
"""
