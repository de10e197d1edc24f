"""Files of cases: store them as regressions, and check them.

The input are files of kernels and of tensor programs. The spec suite runs the regressions of
kernels, and `tinyref fuzz corpus check` runs both kinds and reports the problems of a folder.
"""
