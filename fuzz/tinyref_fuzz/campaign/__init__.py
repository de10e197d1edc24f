"""Campaigns: numbered cases of one seed, judged in isolated workers, with one database.

The input is a device, a seed and a time limit. The output is a folder with the database of all
findings, and a reproducer for each bucket.

`campaign.py` is a plan for the run harness of `tinyref.workers`. It numbers the cases (`plan.py`)
and stores the results (`database.py`). `worker.py` is the code of a worker. `cases.py` and
`programs.py` generate and judge a case by its number, and `examination.py` reduces and blames it.
"""
