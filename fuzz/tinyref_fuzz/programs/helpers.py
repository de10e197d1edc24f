"""What scripts of programs call beside Tensor: files, pickles and threads, as text.

One text runs, and stands at the head of a reproducer where a program needs it.
"""

from __future__ import annotations

from collections.abc import Mapping

from tinyref_fuzz.programs.steps import Program
from tinyref_fuzz.programs.surroundings import STORED_AS

# Of each operation the helper that its line calls.
HELPERS_OF: Mapping[str, str] = {
    "disk": "folder",
    "save": "folder",
    "file": "in_file",
    "file_bytes": "from_file",
    "reload": "again",
    "call_elsewhere": "elsewhere",
    "call_twice": "together",
    "realize_twice": "together",
    "to_fp8": "small_floats",
    "bitcast_fp8": "small_floats",
}

_IN_FILE = '''
def in_file(name, array, before, after):
    """A tensor of these elements in a file, with so many other bytes around them."""
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(bytes([255]) * before + array.tobytes() + bytes([255]) * after)
    end = before + array.nbytes
    whole = Tensor.empty(end + after, dtype="uint8", device=f"DISK:{path}")
    return whole[before:end].bitcast(array.dtype.name).reshape(array.shape)
'''
_FROM_FILE = '''
def from_file(tensor, name, before, device):
    """What its file holds of a tensor by now."""
    wanted = tensor.realize().numpy()
    with open(os.path.join(folder, name), "rb") as file:
        found = np.frombuffer(file.read()[before:][: wanted.nbytes], wanted.dtype)
    return Tensor(found.reshape(wanted.shape).copy(), device=device)
'''
_AGAIN = '''
def again(*values):
    """What a pickle of these gives."""
    return pickle.loads(pickle.dumps(values))
'''
_ELSEWHERE = '''
_CHILD = """
import pickle, sys
function, given = pickle.load(sys.stdin.buffer)
sys.stdout.buffer.write(pickle.dumps(function(*given)))
"""


def elsewhere(function, *given):
    """What a captured function gives in a fresh interpreter."""
    command = [sys.executable, "-c", _CHILD]
    done = subprocess.run(command, input=pickle.dumps((function, given)), capture_output=True)
    if done.returncode:
        raise RuntimeError(done.stderr.decode().strip().rpartition(chr(10))[2])
    return pickle.loads(done.stdout)
'''
_TOGETHER = '''
def together(*works):
    """What works give, each a few times in a thread of its own, all begun at once."""
    start, found, errors = threading.Barrier(len(works)), [None] * len(works), []

    def begin(number, work):
        start.wait()
        try:
            for _ in range(5):
                found[number] = work()
        except BaseException as error:
            errors.append(error)

    threads = [
        threading.Thread(target=contextvars.copy_context().run, args=(begin, number, work))
        for number, work in enumerate(works)
    ]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(interval)
    if errors:
        raise errors[0]
    return found
'''
# Of each helper what it imports, and its definition.
_TEXTS: Mapping[str, tuple[str, str]] = {
    # With it numpy knows the names of its types.
    "small_floats": ("import ml_dtypes  # noqa: F401\n", ""),
    "folder": ("", ""),
    "in_file": ("import os\n", _IN_FILE),
    "from_file": ("import os\n", _FROM_FILE),
    "again": ("import pickle\n", _AGAIN),
    "elsewhere": ("import pickle\nimport subprocess\nimport sys\n", _ELSEWHERE),
    "together": ("import contextvars\nimport sys\nimport threading\n", _TOGETHER),
}
_FOLDER = "\nimport tempfile\n\nfolder = tempfile.mkdtemp()\n"


def helpers_of(program: Program) -> tuple[str, ...]:
    """The helpers that the lines of a program call, in the order of their table."""
    ops = {
        "to_fp8" if step.op == "data" and step.values[0] in STORED_AS else step.op
        for step in program.all_steps()
    }
    needed = {HELPERS_OF[op] for op in ops & HELPERS_OF.keys()}
    return tuple(name for name in _TEXTS if name in needed)


def needs_folder(program: Program) -> bool:
    """Whether a program has files."""
    return not {"folder", "in_file"}.isdisjoint(helpers_of(program))


def helper_text(program: Program, has_folder: bool = False) -> str:
    """Their definitions. has_folder: the folder of its files is made as well."""
    found = [_TEXTS[name] for name in helpers_of(program)]
    folder = _FOLDER if has_folder and needs_folder(program) else ""
    return "".join(head for head, _ in found) + folder + "\n".join(body for _, body in found)
