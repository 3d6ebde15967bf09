"""Benchmarks: `make bench`. They measure and report; they never fail a test run."""
