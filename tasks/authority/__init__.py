"""The trusted authority: the one process that holds signing keys and the key-encryption key.

It stands on the engine alone and is reached through a Unix socket.
"""
