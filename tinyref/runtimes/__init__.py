"""Devices: open, allocate, copy, load a program, launch."""
