"""The servers that the benchmarks put under load."""
