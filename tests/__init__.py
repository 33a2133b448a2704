"""The test suite; run it with `make test`."""
