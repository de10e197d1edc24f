# tinygrad-17, tinygrad 0.14.0: the maximum of 40 numbers of float16 fails the check of the program.
# It needs tinygrad and numpy. Exit code: 1 while it is wrong, 0 when it is right, 2 where it cannot run.
import sys
try:
    import numpy as np, tinygrad
except ImportError as error:
    sys.exit(print(f"{error}. It needs tinygrad and numpy") or 2)
tinygrad.helpers.DEV.value = "PYTHON"  # Its interpreter: no compiler is needed.
try:
    got = tinygrad.Tensor(np.ones(40, "float16")).max().numpy().tolist()
except RuntimeError as error:
    got = str(error)
print(f"expected 1.0, got {got}")
wrong = got != 1.0
sys.exit(print("wrong" if wrong else "right") or wrong)
