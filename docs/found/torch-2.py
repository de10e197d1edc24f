# torch-2, PyTorch 2.13.0: torch.compile computes erf of float32 with an absolute error on a CPU.
# It needs torch, numpy and a C++ compiler. Exit code: 1 while it is wrong, 0 when right, 2 where it cannot run.
import math, sys
x = [2.0**-10, 2.0**-16, 2.0**-20, 2.0**-24]
try:
    import numpy as np, torch
    got = torch.compile(torch.erf)(torch.tensor(x * 4)).numpy()
except Exception as error:
    sys.exit(print(f"{error}. It needs torch, numpy and a C++ compiler") or 2)
expected = [math.erf(value) for value in x * 4]
print(f"expected {expected[:4]}, got {got[:4].tolist()}")
wrong = not np.allclose(got, expected, rtol=1e-5, atol=0)
sys.exit(print("wrong" if wrong else "right") or wrong)
