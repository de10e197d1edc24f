"""Cases on file: kept as regressions, checked, brought up to date.

In: files of kernels and of tensor programs. Out: regressions, which the spec suite (kernels) and
`tinyref fuzz corpus check` (both) run again; and what is wrong with the files of a folder.
"""
