# tinygrad-16, tinygrad 0.14.0: the sum of a tensor that is concatenated with itself is too large.
# It needs tinygrad and numpy. Exit code: 1 while it is wrong, 0 when it is right, 2 where it cannot run.
import sys
try:
    import numpy as np, tinygrad
except ImportError as error:
    sys.exit(print(f"{error}. It needs tinygrad and numpy") or 2)
tinygrad.helpers.DEV.value = "PYTHON"  # Its interpreter: no compiler is needed.
x = np.array([[0, 0, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]], "int32")
expected = np.concatenate([x, x]).sum()
y = tinygrad.Tensor(x)
got = y.cat(y, dim=0).sum().numpy()
print(f"expected {expected.tolist()}, got {got.tolist()}")
wrong = not got == expected
sys.exit(print("wrong" if wrong else "right") or wrong)
