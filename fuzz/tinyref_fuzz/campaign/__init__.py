"""Campaigns: numbered cases of one seed, judged in isolated workers, kept in one database.

In: a device, a seed, a time. Out: a folder with the database of all findings, and a reproducer for
each bucket.

`campaign.py` is a plan for the run harness of `tinyref.workers`: it numbers the cases (`plan.py`)
and stores what comes back (`database.py`). `worker.py` is what a worker does; `cases.py` and
`programs.py` make and judge a case by its number, `examination.py` reduces and blames it.
"""
