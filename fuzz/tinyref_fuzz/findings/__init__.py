"""What is made of a verdict that found something: blame, a bucket, a reproducer, a page.

In: a judged case. Out: the smallest case of the same fault, the bucket of its cause, a script that
shows it by itself, and the stages side by side.

`examine.py` reduces and blames, `bucket.py` names the cause; `reproducer.py` writes the script,
`show.py` the page, `one_line.py` what both say in a line. `isolated.py` judges and examines a file
in a process of its own, for the commands on files: `folder.py` checks them, `keep.py` keeps them.
"""
