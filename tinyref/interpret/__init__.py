"""The interpreter: it runs a program as a device does, and checks it while it runs.

In: a `Program` and buffers. Out: their contents after the run, or the fault: an access out of
bounds, an uninitialised read, a race, a divergent barrier. All work-items of a launch are lanes of
numpy arrays; loops run in Python; barriers start epochs. `evaluate.py` is the evaluator: it
computes a kernel AST by numpy, without lowering. Neither may import `codegen` or `optimise`, which
they test.
"""

from tinyref.interpret.interpreter import Interpreter, run_program
from tinyref.interpret.lanes import Access, Fault, Hooks, SanitizerError

__all__ = ["Access", "Fault", "Hooks", "Interpreter", "SanitizerError", "run_program"]
