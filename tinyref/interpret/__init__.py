"""The interpreter: runs a program the way a device does, and checks it while it runs.

In: a `Program` and buffers. Out: their contents after it, or the fault: an access out of bounds, an
uninitialised read, a race, a divergent barrier. All work-items of a launch are lanes of numpy
arrays; loops run in Python; barriers start epochs. `evaluate.py` is the other evaluator: a kernel
AST by numpy, with no lowering. Neither may import `codegen` or `optimise`, which they judge.
"""

from tinyref.interpret.interpreter import Interpreter, run_program
from tinyref.interpret.lanes import Access, Fault, Hooks, SanitizerError

__all__ = ["Access", "Fault", "Hooks", "Interpreter", "SanitizerError", "run_program"]
