"""Puts the nodes of a kernel into one legal order that keeps few values alive.

In: an indexed kernel, ready for the device. Out: its nodes in order, every loop closed.
"""
