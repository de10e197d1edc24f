"""Weights: collect them from models, load them into models, read and write files.

safetensors files are read and written. Torch checkpoints, GGUF and tar files are read. Tensors of a
file are views of it on the DISK device, and are read when they are copied to another device.
Nothing in a file is executed: contents that are not accepted raise `UserError`.
"""

from tinyref.nn.state.gguf import ggml_data_to_tensor, gguf_load
from tinyref.nn.state.safetensors import safe_load, safe_load_metadata, safe_save
from tinyref.nn.state.state_dict import get_parameters, get_state_dict, load_state_dict
from tinyref.nn.state.tar import tar_extract
from tinyref.nn.state.torch_files import torch_load

__all__ = [
    "get_parameters",
    "get_state_dict",
    "ggml_data_to_tensor",
    "gguf_load",
    "load_state_dict",
    "safe_load",
    "safe_load_metadata",
    "safe_save",
    "tar_extract",
    "torch_load",
]
