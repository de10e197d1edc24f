"""Graphs of any dialect, sequences and programs as text, which reads back to the same nodes.

In: nodes. Out: text for people, for files of cases and for bug reports, and the reverse; what comes
from outside is checked before a node is built.

`payload_fields.py` declares the members of each payload; `text.py` prints what the flag DUMP asks
for, too.
"""
