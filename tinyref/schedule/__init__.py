"""From the tensor graph of the requested outputs to an ordered list of kernels."""

from tinyref.schedule.items import CopyItem, Item, KernelItem, Schedule
from tinyref.schedule.scheduler import schedule

__all__ = ["CopyItem", "Item", "KernelItem", "Schedule", "schedule"]
