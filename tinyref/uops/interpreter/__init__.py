"""The interpreter: runs a program the way a device does, and checks it while it runs.

All work-items of a launch are lanes of numpy arrays; loops run in Python; barriers start epochs.
"""

from tinyref.uops.interpreter.errors import Fault, SanitizerError
from tinyref.uops.interpreter.machine import Access, Hooks
from tinyref.uops.interpreter.run import Interpreter, run_program

__all__ = ["Access", "Fault", "Hooks", "Interpreter", "SanitizerError", "run_program"]
