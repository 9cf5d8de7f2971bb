"""Benchmarks beside peers: the same work in one run, repeated and interleaved. `make bench` runs them."""
