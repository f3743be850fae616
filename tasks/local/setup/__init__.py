"""What the machine needs before the product runs. Standard library only: nothing else is there."""
