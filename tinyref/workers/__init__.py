"""Runs of many items in worker processes; any worker may crash, hang or take all memory.

`processes.py` starts a worker, limits it and reads its `messages.py`, which `service.py` writes.
`tasks.py` defines what workers get and return; `local.py` executes tasks on this machine and
`cluster.py` on a Dask cluster, and both attribute each death to one item. `run.py` is the loop of a
run, `journal.py` stores its results, and `machine.py` reads the limits of cores and memory.
"""
