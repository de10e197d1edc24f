"""Graphs of any dialect, sequences and programs as text, which reads back to the same nodes.

In: nodes. Out: text for people, case files and bug reports, and nodes again. Text from outside is
checked before a node is built.

`payload_fields.py` declares the members of each payload; `text.py` also prints for the flag DUMP.
"""
