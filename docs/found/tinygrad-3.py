# tinygrad-3, tinygrad 0.14.0: asinh(x) is log(x + sqrt(x * x + 1)), whose sum cancels below 0.
# It needs tinygrad and numpy. Exit code: 1 while it is wrong, 0 when it is right, 2 where it cannot run.
import math, sys
try:
    import numpy as np, tinygrad
except ImportError as error:
    sys.exit(print(f"{error}. It needs tinygrad and numpy") or 2)
tinygrad.helpers.DEV.value = "PYTHON"  # Its interpreter: no compiler is needed.
x = [-5000.0, -1000.0, 2.0**-26]
expected = [math.asinh(value) for value in x]
got = tinygrad.Tensor(np.array(x, "float32")).asinh().numpy()
print(f"expected {expected}, got {got.tolist()}")
wrong = not np.allclose(got, expected, rtol=1e-5, atol=0)
sys.exit(print("wrong" if wrong else "right") or wrong)
