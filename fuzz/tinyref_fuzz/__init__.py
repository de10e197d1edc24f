"""The fuzzer's room: empty until its issue is built."""
