"""Small files of other programs, as bytes: made once, by `spec/tests/made_files.py`.

TORCH and TORCH_LEGACY: torch.save of {"weight": (2, 3) float32, a part of a transposed tensor;
"bias": (2,) int32; "epoch": 7; "names": ["a", None]}. GGUF: gguf.GGUFWriter, two texts and numbers,
one tensor of float32 and one of Q4_0. TAR: tarfile, three files and a directory.
"""

import base64
import zlib


def _bytes(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))


TORCH = _bytes(
    "eNqlVU9o01AYf0m6tGaz6+Zm3Q5DPFXQLv27xuE2ggQkoF1FKIKELH02wazZS143FISCTNjJm+BFvOnRm1cPnrztIh"
    "52ELy4kwcv4mW+12xdktoO54OvHwnv9/t+73u/L62qXAyARAL0rRSYBLprmNYmnG/oWM9uPLQVOQnuhVaHfYJAps4T"
    "wBa0miZGjIEdAstqbWzZnqC5cK1t2Q0Nw5bnuNpmXkBsJlOPE4RHdupNiDgfIii2o+M7/ksBxeoM2SOikTpHsrHRRr"
    "w6hlF8VeVUVuWeoYTK0HRmxzAc24YGtpyWJ9x2G9CFjRuWgQUkXK6hUYzGauhsnZwTrFm6h5ImEWAeFb3ZOi453i2Z"
    "QymTV1mMJlZVoLLbaFJlttG5HZOyTWE0XUPn6yNkI9xwDBOl1Xj3qaWvQw9duI9mMl0aHc3egu1sVY0nXrx7nr5E3t"
    "GoDux4Gsz0Op594LjrOtY2oeuRYynydKTxhytH6d//2HtKK9IYTD8LFo7pD1uv6bbVbK3DFlbkwt8rDF/lIhWwvIX2"
    "WVKCHSpgAiz3BKw9wtChN6XIi6epe7RsC2MbUg3b17/NUBvyQzUkwVLI1fOiIl/7DwE+a2eJ/CwDsEKiQ+I1iQ8kvp"
    "IAK2SWSFwkIa5QpW/3f34SqbVPUDoVVppT5FSfUmq83wcHB5R3j3nzkRIlhvKOg8Ueb89dC6dtQUGglXdfNe+efP9z"
    "IH9swO6RPOhaxIGPdTq6mtVQ5Ow/ChFL5VxOrJTyhXJOKi+IpbxUFKViJV8qlMWCVKlIklQqSnmq8vvL/TsZoiPTVc"
    "lQsT2dwQlN9SmPfgej6OAApkNIlwGDZjpKEhyi2RDJbpCkb3KjPMFBmAjx1FjQP4BReNCdyRD8MwsisxPFBh0Yxna4"
    "CDYXxQY9NB7CfglgB/QueLVz4TPHwAmmq6o8f+XIotzVHjIRyaOsn3/F/Exw9E8McHH/2f/6jvA+JtHd7+/9A11cmx"
    "c="
)
TORCH_LEGACY = _bytes(
    "eNptUE1v00AQXa+dBJYkpHyXU47mEuWLqr2UHKpIaNVA08teKstxVvEi483Y61atVCmXIMJv4NAjP4OfwpWfAEJKxw"
    "lRW6krvV3N25l5b2ZGv7Ho3/f+n/qnHx+3GzN6+NvG+xKIK2qEkGmijQ505J3KJFU6BgsTRAV/ImVMJD0Zj5UfA/0q"
    "GJLmfCq9VF3IFOxLcFxRQDINdWKgwKmwMVKxgSJ3hJP30PEEStzJso1mEdkzqSahASswOgnChpcZFaXMS+QoU9HYMz"
    "JOdeKdthlQ1xWlXAEz/YkEe13C+pH2zfGaZOCIKubsdXY7O91mq93ce9vsQmFlJphmaKY8MFA64jan3P4CD7iVPw8X"
    "Ac4dycDg2Cn7kIxlIscHKjAM2JshPDJQHkJlNcdI+SlUQ7QTbiy8j28MPL5roNVqdXagFhY5ReGtI044ncMTbs3h6S"
    "LMez8z8HwIL1bbk1MdhPCSl1ZR7H/G3b46gW1XWBj78Hog8+2d5Nu7Z07rPm0qG2Vy+8z28XpHSA8xQ1whfiJ+IUiP"
    "kBqijmj26P+K3Mzf5XJ5DXvHlNc="
)
GGUF = _bytes(
    "eNpzdw91Y2ZgYGBigAAWKC0CpdNT81KLEnP0EouSMzJLUpNLSotSOYDirFD5nJzE3EQ2GCexMrWomAVqHMyovMRcsB"
    "aYFYf3wDQXZ1alFnNCTYNJMwLxv////8MUFeQkZuaBJJmhAjCFyADmgqSc/OTsYpAKBSTjYLoUGHCABjsgYc/A4ADE"
    "DUC8wB4uZfHh4aXDW5ZOa6/IjPK20ZXjR9UJALQmJ6Y="
)
TAR = _bytes(
    "eNrt1jsOgzAQRdGpswpWkJjYDOsBlDaRYiNl7ZAPFqWVJpEwhe9pxt0UT8+2H/uTbMxE6tw6o3R+OWtjrVSNZDD60N"
    "3jSilTdwyPsHv+Ls2/PRupDPlv7na9HATF8vH+73fvv6b911bpfw7T/Hy9P/SgVEOGHX/8/2rD+w8AAAAAAAAAAAAA"
    "P1kAYIg9oQ=="
)
