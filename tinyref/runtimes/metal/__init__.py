"""The GPUs of macOS through the Metal framework and its bindings for Python, pyobjc.

What is here has not run on a Mac yet: it is written by Apple's documentation of Metal, and tested
with a framework of fake objects, whose kernels the emulator of MSL runs.
"""
