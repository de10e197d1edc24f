# torch-3, PyTorch 2.13.0: torch.pow(-0.0, 0.5) is -0.0, because it is computed as a square root.
# It needs torch and numpy. Exit code: 1 while it is wrong, 0 when it is right, 2 where it cannot run.
import sys
try:
    import numpy as np, torch
except ImportError as error:
    sys.exit(print(f"{error}. It needs torch and numpy") or 2)
x = torch.tensor([-0.0, -float("inf")])
expected = [0.0, float("inf")]
got, elements = torch.pow(x, 0.5).tolist(), torch.pow(x, torch.full((2,), 0.5)).tolist()
print(f"expected {expected}, got {got}; with an exponent for each element {elements}")
wrong = not np.array_equal(np.array(got).view("u8"), np.array(expected).view("u8"))
sys.exit(print("wrong" if wrong else "right") or wrong)
