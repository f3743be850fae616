"""What takes too long for `make test`: run by `make soak`, never collected by pytest."""
