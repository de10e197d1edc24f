"""What a tensor stands for: a node on a device, how it was made, and who else shows its elements.

`core.py` has the value, its record for gradients and the class that every tensor is one of;
`views.py` who shows the same elements, `registry.py` all values that are alive, `names.py` the
names of nodes after the methods that made them, `locks.py` what threads and forks share.
"""
