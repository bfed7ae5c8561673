"""Order and admission of waiting Jobs by hub Queue: state, capability, priority, age."""
