"""Campaigns: numbered cases of one seed, judged in isolated workers, kept in one database.

In: a device, a seed, a time. Out: a folder with the database of all findings, a reproducer for each
bucket, and a page.

`campaign.py` hands out tasks (`task.py`) to the workers of this machine (`local.py`, `worker.py`)
or of a cluster (`cluster.py`), and stores what they say (`database.py`); `cases.py` makes and
judges a case by its number, `examination.py` reduces and blames it; `guide.py` weighs what was
seldom reached.
"""
