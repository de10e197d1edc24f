# tinygrad-2, tinygrad 0.14.0: erf of float64 is right to seven digits, and to none near 0.
# It needs tinygrad and numpy. Exit code: 1 while it is wrong, 0 when it is right, 2 where it cannot run.
import math, sys
try:
    import numpy as np, tinygrad
except ImportError as error:
    sys.exit(print(f"{error}. It needs tinygrad and numpy") or 2)
tinygrad.helpers.DEV.value = "PYTHON"  # Its interpreter: no compiler is needed.
x = [2.0**-30, 0.001, 0.5, 2.0]
expected = [math.erf(value) for value in x]
got = tinygrad.Tensor(np.array(x, "float64")).erf().numpy()
print(f"expected {expected}, got {got.tolist()}")
wrong = not np.allclose(got, expected, rtol=1e-12, atol=0)
sys.exit(print("wrong" if wrong else "right") or wrong)
