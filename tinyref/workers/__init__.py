"""Runs of many items in worker processes, each of which may crash, hang or take all memory.

`processes.py` starts a worker, limits it and reads its `messages.py`, which `service.py` writes.
`tasks.py` says what workers get and what comes back; `local.py` carries tasks out on this machine
and `cluster.py` on a Dask cluster, with each death pinned to one item. `run.py` is the loop of a
run, and `journal.py` stores its results. `machine.py` knows the cores and the memory there are.
"""
