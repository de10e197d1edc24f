"""Turn a failing case into a finding: blame, a bucket, a reproducer, a page.

The input is a judged case. The output is the smallest case of the same fault, the bucket of its
cause, a script that shows it, and the stages side by side.

`examine.py` reduces and blames, and `bucket.py` names the cause. `reproducer.py` writes the script,
`show.py` the page, and `one_line.py` the lines of both. `isolated.py` judges and examines a file in
its own process, for the commands on files.
"""
