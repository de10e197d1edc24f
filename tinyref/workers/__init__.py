"""Worker processes: what they do may crash, hang, or take all memory, and costs them alone.

In: a module to run in a process of its own, and limits. Out: its messages, and how it ended.

`processes.py` starts a worker, limits it and reads its `messages.py`; `machine.py` knows
the cores and the memory there are; `service.py` is one process that answers requests, and
`supervisor.py` many that work at tasks, each death of which is pinned to one item.
"""
