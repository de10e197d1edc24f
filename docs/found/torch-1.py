# torch-1, PyTorch 2.13.0: torch.compile computes expm1 of elu and celu as exp(x) - 1 on a CPU.
# It needs torch, numpy and a C++ compiler. Exit code: 1 while it is wrong, 0 when right, 2 where it cannot run.
import sys
x, wrong = [-(2.0**-10), -(2.0**-16), -(2.0**-22), -(2.0**-30)], False
try:
    import numpy as np, torch, torch.nn.functional as F
    results = [(f, torch.compile(f)(torch.tensor(x * 4)).numpy()) for f in (F.elu, F.celu)]
except Exception as error:
    sys.exit(print(f"{error}. It needs torch, numpy and a C++ compiler") or 2)
expected = np.expm1(np.array(x * 4))
for f, got in results:
    print(f"{f.__name__}: expected {expected[:4].tolist()}, got {got[:4].tolist()}")
    wrong |= not np.allclose(got, expected, rtol=1e-6, atol=0)
sys.exit(print("wrong" if wrong else "right") or wrong)
