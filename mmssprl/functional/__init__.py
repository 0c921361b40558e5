"""Pure functions of tensors: no registry, no configuration, no hidden state."""
