"""Newton steps: for smooth risks, and along the central path (interior points) for losses and penalties with kinks."""
