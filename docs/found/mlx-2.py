# mlx-2, MLX 0.32.4: the gradient of elu is NaN above 88, where exp overflows in the other branch.
# It needs mlx and numpy. Exit code: 1 while it is wrong, 0 when it is right, 2 where it cannot run.
import sys
try:
    import mlx.core as mx, mlx.nn as nn, numpy as np
except ImportError as error:
    sys.exit(print(f"{error}. It needs mlx and numpy") or 2)
mx.set_default_device(mx.cpu)
got = np.array(mx.grad(lambda x: nn.elu(x).sum())(mx.array([1.0, 89.0, 1000.0])))
print(f"expected {[1.0, 1.0, 1.0]}, got {got.tolist()}")
wrong = got.tolist() != [1.0, 1.0, 1.0]
sys.exit(print("wrong" if wrong else "right") or wrong)
