# tinygrad-14, tinygrad 0.14.0: a number is not shifted by a tensor: the program fails its own check.
# It needs tinygrad and numpy. Exit code: 1 while it is wrong, 0 when it is right, 2 where it cannot run.
import sys
try:
    import numpy as np, tinygrad
except ImportError as error:
    sys.exit(print(f"{error}. It needs tinygrad and numpy") or 2)
tinygrad.helpers.DEV.value = "PYTHON"  # Its interpreter: no compiler is needed.
try:
    got = (2 << tinygrad.Tensor(np.array([1, 2], "int32"))).numpy().tolist()
except RuntimeError as error:
    got = str(error)
print(f"expected [4, 8], got {got}")
wrong = got != [4, 8]
sys.exit(print("wrong" if wrong else "right") or wrong)
