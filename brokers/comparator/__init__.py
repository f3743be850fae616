"""The comparator of SBM-II (paper 003): the one process beside clients that can decrypt.

It stands where the paper has an SGX enclave. A process of its own is isolation by the
operating system and not an enclave: whoever owns the machine can read its memory.
"""
