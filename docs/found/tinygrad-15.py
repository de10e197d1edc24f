# tinygrad-15, tinygrad 0.14.0: clang refuses the kernel of a gradient of scatter of float16.
# It needs tinygrad, numpy and clang. Exit code: 1 while it is wrong, 0 when it is right, 2 where it cannot run.
import subprocess, sys
try:
    import numpy as np; from tinygrad import Tensor; from tinygrad.helpers import DEV; DEV.value = "CPU"
except ImportError as error:
    sys.exit(print(f"{error}. It needs tinygrad and numpy") or 2)
x, v = Tensor(np.ones((4, 5), "float16")), Tensor(np.ones((3, 4), "float16"))
try:
    got = x.scatter(0, Tensor([[2, 0, 1], [0, 3, 2]]), v).gradient(v, gradient=x)[0].numpy().sum()
except (subprocess.CalledProcessError, FileNotFoundError) as error:
    got = "no clang" if isinstance(error, FileNotFoundError) else "the compiler fails"
print(f"expected 6.0, got {got}")
wrong = got != 6.0
sys.exit(2 if got == "no clang" else print("wrong" if wrong else "right") or wrong)
