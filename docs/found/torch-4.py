# torch-4, PyTorch 2.13.0: torch.compile drops the type of a cumulative sum of equal elements.
# It needs torch, numpy and a C++ compiler. Exit code: 1 while it is wrong, 0 when right, 2 where it cannot run.
import sys
try:
    import numpy as np, torch
    f = lambda: torch.full((3, 4), -2, dtype=torch.int32).cumsum(0, dtype=torch.int32)
    expected, got = f().numpy(), torch.compile(f)().numpy()
except Exception as error:
    sys.exit(print(f"{error}. It needs torch, numpy and a C++ compiler") or 2)
print(f"expected {expected.dtype}, got {got.dtype}")
wrong = got.dtype != np.int32
sys.exit(print("wrong" if wrong else "right") or wrong)
